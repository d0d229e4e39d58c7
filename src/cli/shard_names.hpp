// The files that a sharded model is to have, by the names that an index or its numbering give them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ht::cli {

/// The files that an index names, each once, in the order of their names. The text is known to be an index.
[[nodiscard]] std::vector<std::string> files_of_index(std::string_view text);

/// `model-00002-of-00004.safetensors` names four files, from 00001 on; anything else none.
[[nodiscard]] std::vector<std::string> files_of_numbering(const std::string& name);

/// All files of the model at the path, an index, a folder or one of its parts; none where they are not told.
[[nodiscard]] std::vector<std::filesystem::path> shard_paths(const std::filesystem::path& path);

}  // namespace ht::cli
