// Several files that are one model.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "format/shards/shard_index.hpp"
#include "model/model_files.hpp"

namespace ht::inline v1 {

/// One file with its own catalog, and the files that it refers to.
[[nodiscard]] Result<ModelFiles> open_one(io::Opened file, const OpenOptions& options);

/// These files as one model, in this order. `missing_shard` names all that are not there; `duplicate_tensor`
/// where two of them have a tensor of the same name.
[[nodiscard]] Result<std::vector<ModelFiles>> open_shards(const std::vector<std::filesystem::path>& paths,
                                                          const OpenOptions& options);
/// The metadata is that of the first with what the others add, but for keys that begin with `left_out`.
[[nodiscard]] Result<ModelFiles> merge(std::vector<ModelFiles> shards, std::string_view left_out = {});

/// The shards that an index at `path` names. `stale_index` where it and they do not agree.
[[nodiscard]] Result<ModelFiles> open_indexed(const std::filesystem::path& path, const ShardIndex& index,
                                              const OpenOptions& options);

[[nodiscard]] inline io::Port& port_of(const OpenOptions& options) noexcept {
  return options.port != nullptr ? *options.port : io::system_port();
}

}  // namespace ht::inline v1
