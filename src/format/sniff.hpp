// Detects the kind of a file from its first bytes.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <optional>
#include <span>
#include <string_view>

namespace ht::inline v1 {

struct Format;

/// The number of bytes used to detect the kind of a file.
inline constexpr std::uint64_t sniffed_bytes = 512;

/// Whether the bytes begin with the magic, or are a prefix of it.
[[nodiscard]] bool begins_with(Bytes bytes, std::string_view magic) noexcept;

/// `Format::looks_like` of a format whose files begin with the magic.
template <const std::string_view& Magic>
[[nodiscard]] bool has_magic(Bytes prefix, std::uint64_t /*file_bytes*/) {
  return begins_with(prefix, Magic);
}

// In the functions below, `prefix` is the first `sniffed_bytes` bytes of the file, or all of a shorter file.

/// Whether the file begins like a JSON object or array.
[[nodiscard]] bool is_json_file(Bytes prefix, std::uint64_t file_bytes);

/// `bad_magic` for a file of a known kind: empty, a Git LFS pointer, a web page, a pickle, an archive, JSON,
/// plain text. nullopt for others.
[[nodiscard]] std::optional<Error> known_file_kind(Bytes prefix, std::uint64_t file_bytes);
/// The same, but nullopt for JSON and plain text.
[[nodiscard]] std::optional<Error> known_file_kind_except_json_and_text(Bytes prefix,
                                                                        std::uint64_t file_bytes);

/// `bad_magic` for a file that no format recognises. The message names the kind of the file if it is known;
/// the hint says how to get weights that can be read. `more` are formats of the caller.
[[nodiscard]] Error unknown_format_error(Bytes prefix, std::uint64_t file_bytes,
                                         std::span<const Format> more = {});

}  // namespace ht::inline v1
