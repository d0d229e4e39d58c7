// The files of a sharded model, by its index or by their numbers.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ht::cli {

/// The files that an index names, sorted and without duplicates. The text has to be an index.
[[nodiscard]] std::vector<std::string> files_of_index(std::string_view text);

/// All four names for `model-00002-of-00004.safetensors`; empty for a name without numbers.
[[nodiscard]] std::vector<std::string> files_of_numbering(const std::string& name);

/// All files of the model at the path, which is an index, a folder or one of the files; empty if unknown.
[[nodiscard]] std::vector<std::filesystem::path> shard_paths(const std::filesystem::path& path);

}  // namespace ht::cli
