// From what a user names to the files of a model and one catalog for all of them.
#pragma once

#include <filesystem>
#include <htensor/format/catalog.hpp>
#include <htensor/io/mapped.hpp>
#include <htensor/model/model.hpp>
#include <optional>
#include <span>
#include <vector>

namespace ht::inline v1 {

struct ModelFile {
  std::filesystem::path path;
  /// Nothing where it is missing, as another file's data may be with `headers_only`.
  std::optional<io::Opened> opened;
};

struct ModelFiles {
  Catalog catalog;
  /// The files that entries lie in, by their number.
  std::vector<ModelFile> files;
  /// What named the files, where an index did.
  std::optional<std::filesystem::path> index = std::nullopt;
};

/// A file of any format, one part of a split model, a shard index, or a folder that holds one model.
[[nodiscard]] Result<ModelFiles> open_model_files(const std::filesystem::path& path,
                                                  const OpenOptions& options);

/// Several models as one, as `Model::open_merged` has it; at least one path.
[[nodiscard]] Result<ModelFiles> open_merged_files(std::span<const std::filesystem::path> paths,
                                                   const OpenOptions& options);

}  // namespace ht::inline v1
