// The task: from a file's header to a list of its tensors that can be looked up.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace ht::bench {

/// Opens the file as a user would: everything checked, every name found in constant time. How many tensors it
/// has, 0 on an error or where the last one cannot be looked up.
[[nodiscard]] std::size_t list_by_htensor(const std::filesystem::path& path);

/// Bytes behind a text that `parse_by_simdjson` may read.
inline constexpr std::size_t json_padding = 64;

/// simdjson's DOM of the JSON, and nothing else: the limit for a reader of JSON. `json_padding` bytes follow
/// the text. Returns the number of members of the object.
[[nodiscard]] std::size_t parse_by_simdjson(std::string_view padded_json);

/// nlohmann's parse of the JSON, and nothing else: what C++ programs do today.
[[nodiscard]] std::size_t parse_by_nlohmann(std::string_view json);

/// Reads the file's first `header_bytes` and walks over the lengths of a little-endian GGUF in them,
/// believing all of it and keeping nothing: the limit for whoever reads GGUF. How many tensors were passed.
[[nodiscard]] std::size_t walk_gguf(const std::filesystem::path& path, std::size_t header_bytes);

/// Reads the file's first `header_bytes` and looks at nothing: the limit for whoever reads a file.
[[nodiscard]] std::size_t read_only(const std::filesystem::path& path, std::size_t header_bytes);

}  // namespace ht::bench
