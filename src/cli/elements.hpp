// Single elements of a tensor of any dtype, wherever and however they lie in the file.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <htensor/htensor.hpp>

namespace ht::cli {

/// Appends the nth element as stored, as text or JSON.
using AppendElement = std::function<void(fmt::memory_buffer&, std::int64_t)>;

/// Nothing is copied but the element that is asked for, so that a corner of a tensor that cannot be used in
/// place, being misaligned or big endian, costs no more than that of another. `raw` are the entry's bytes as
/// stored, of which a splat has none.
[[nodiscard]] Result<AppendElement> element_appender(const Entry& entry, const Storage& raw, bool json);

}  // namespace ht::cli
