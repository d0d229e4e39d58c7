// Names the kind of a file by its first bytes.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1 {

/// The bytes at the beginning of a file that its kind is recognised by.
inline constexpr std::uint64_t sniffed_bytes = 512;

/// Whether the bytes begin with the magic, or end within it.
[[nodiscard]] bool begins_with(Bytes bytes, std::string_view magic) noexcept;

/// `Format::looks_like` of a format whose files begin with the magic.
template <const std::string_view& Magic>
[[nodiscard]] bool has_magic(Bytes prefix, std::uint64_t /*file_bytes*/) {
  return begins_with(prefix, Magic);
}

// `prefix` has `sniffed_bytes`, or all of a shorter file.

/// Whether the file is a JSON text.
[[nodiscard]] bool is_json_file(Bytes prefix, std::uint64_t file_bytes);

/// `bad_magic` for a file of a known kind other than text: empty, a Git LFS pointer, a web page, a pickle, an
/// archive. nullopt for others.
[[nodiscard]] std::optional<Error> other_file_kind(Bytes prefix, std::uint64_t file_bytes);
/// The same, and for text.
[[nodiscard]] std::optional<Error> known_file_kind(Bytes prefix, std::uint64_t file_bytes);

/// `bad_magic`: the kind of a file whose format is not known, and how to read its weights.
[[nodiscard]] Error no_weights(Bytes prefix, std::uint64_t file_bytes);

}  // namespace ht::inline v1
