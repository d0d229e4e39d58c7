// What a file is that is no weights file.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>

namespace ht::inline v1 {

/// As much of a file as it takes to tell what it is.
inline constexpr std::uint64_t sniffed_bytes = 512;

/// `bad_magic`: what this is instead of weights, and what to do. `prefix` has `sniffed_bytes`, or all of a
/// shorter file, and is of no format that is known.
[[nodiscard]] Error no_weights(Bytes prefix, std::uint64_t file_bytes);

}  // namespace ht::inline v1
