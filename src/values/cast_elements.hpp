// Conversions between dtypes that are known at run time.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/dtype/facts.hpp>

namespace ht::inline v1 {

/// Whether every finite value of `from` is a value of `to`. False for dtypes of users, but for the same one.
[[nodiscard]] bool is_lossless(DTypeTag from, DTypeTag to) noexcept;

/// Converts `count` dense elements, from the first of `stored` to the first of `into`. The conversion has to
/// be lossless and between dtypes of the library, and both have to be aligned for their elements.
void cast_elements(DTypeTag from, Bytes stored, DTypeTag to, MutableBytes into, std::int64_t count);

}  // namespace ht::inline v1
