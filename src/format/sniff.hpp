// Names the kind of a file that is not a weights file.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <optional>

namespace ht::inline v1 {

/// The bytes at the beginning of a file that its kind is recognised by.
inline constexpr std::uint64_t sniffed_bytes = 512;

// `prefix` has `sniffed_bytes`, or all of a shorter file.

/// `bad_magic` for a file of a known kind other than text: empty, a Git LFS pointer, a web page, a pickle, an
/// archive. nullopt for others.
[[nodiscard]] std::optional<Error> other_file_kind(Bytes prefix, std::uint64_t file_bytes);

/// `bad_magic`: the kind of a file whose format is not known, and how to get at its weights.
[[nodiscard]] Error no_weights(Bytes prefix, std::uint64_t file_bytes);

}  // namespace ht::inline v1
