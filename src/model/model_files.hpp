// From a path that a user names to the files of a model and one catalog for all of them.
#pragma once

#include <filesystem>
#include <htensor/model/model.hpp>
#include <span>

#include "model/shard_set.hpp"

namespace ht::inline v1 {

/// A file of any format, one part of a split model, a shard index, or a folder that holds one model.
[[nodiscard]] Result<ModelFiles> open_model_files(const std::filesystem::path& path,
                                                  const OpenOptions& options);

/// Several models as one, as `Model::open_merged` has it; at least one path.
[[nodiscard]] Result<ModelFiles> open_merged_files(std::span<const std::filesystem::path> paths,
                                                   const OpenOptions& options);

}  // namespace ht::inline v1
