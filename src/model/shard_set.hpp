// Several files that are one model.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "format/shards/shard_index.hpp"
#include "model/model_files.hpp"

namespace ht::inline v1 {

/// `missing_shard` names the files that do not exist.
[[nodiscard]] Result<void> check_all_there(const std::vector<std::filesystem::path>& paths,
                                           const OpenOptions& options);

/// One file with its own catalog, and the files that it refers to.
[[nodiscard]] Result<ModelFiles> open_one(io::Opened file, const OpenOptions& options);

/// Each of these files, in this order. `missing_shard` names the files that do not exist.
[[nodiscard]] Result<std::vector<ModelFiles>> open_shards(const std::vector<std::filesystem::path>& paths,
                                                          const OpenOptions& options);
/// All of them as one model. A key's value is that of the first shard that has the key; keys that begin with
/// `left_out` are dropped. `duplicate_tensor` where two shards have a tensor of the same name.
[[nodiscard]] Result<ModelFiles> merge(std::vector<ModelFiles> shards, std::string_view left_out = {});

/// The shards that the index at `path` names. `missing_shard` where shards are missing, or the index skips
/// some of a numbered set; `stale_index` where index and shards do not agree.
[[nodiscard]] Result<ModelFiles> open_indexed(const std::filesystem::path& path, const ShardIndex& index,
                                              const OpenOptions& options);

[[nodiscard]] inline io::Port& port_of(const OpenOptions& options) noexcept {
  return options.port != nullptr ? *options.port : io::system_port();
}

}  // namespace ht::inline v1
