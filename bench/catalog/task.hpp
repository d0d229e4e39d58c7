// The task: read a file's header and build a catalog of its tensors.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace ht::bench {

/// Opens the file as a user does: all checks, constant-time lookup by name. Returns the number of tensors; 0
/// on an error or if the lookup of the last one fails.
[[nodiscard]] std::size_t list_by_htensor(const std::filesystem::path& path);

/// Number of readable bytes that must follow the text passed to `parse_by_simdjson`, because simdjson reads
/// past the end of the text.
inline constexpr std::size_t json_padding = 64;

/// Parses the JSON with simdjson's DOM only: the limit for a JSON reader. `json_padding` readable bytes must
/// follow the text. Returns the number of members of the object.
[[nodiscard]] std::size_t parse_by_simdjson(std::string_view padded_json);

/// Parses the JSON with nlohmann only: the usual way in C++ programs.
[[nodiscard]] std::size_t parse_by_nlohmann(std::string_view json);

/// Reads the first `header_bytes` of the file and walks over the lengths of a little-endian GGUF, without
/// checks and without storing anything: the limit for a GGUF reader. Returns the number of tensors.
[[nodiscard]] std::size_t walk_gguf(const std::filesystem::path& path, std::size_t header_bytes);

/// Reads the first `header_bytes` of the file without parsing: the limit for any reader.
[[nodiscard]] std::size_t read_header_bytes(const std::filesystem::path& path, std::size_t header_bytes);

}  // namespace ht::bench
