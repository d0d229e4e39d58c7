// From a path that a user names to the files of a model and one catalog for all of them.
#pragma once

#include <filesystem>
#include <htensor/format/catalog.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/shards/shard_index.hpp"
#include "model/set_journal.hpp"

namespace ht::inline v1 {

struct ModelFile {
  std::filesystem::path path;
  /// Null where the file is missing, as another file's data may be with `headers_only`.
  std::shared_ptr<const io::Source> source;
};

struct ModelFiles {
  Catalog catalog;
  /// The files of entries by their number.
  std::vector<ModelFile> files;
  /// The index that names the files.
  std::optional<std::filesystem::path> index = std::nullopt;
};

/// A file of any format, one part of a split model, a shard index, or a folder that holds one model.
[[nodiscard]] Result<ModelFiles> open_model_files(const std::filesystem::path& path,
                                                  const OpenOptions& options);
/// Several models as one, as `Model::open_merged` has it; at least one path.
[[nodiscard]] Result<ModelFiles> open_merged_files(std::span<const std::filesystem::path> paths,
                                                   const OpenOptions& options);

[[nodiscard]] inline io::Port& port_of(const OpenOptions& options) noexcept {
  return options.port != nullptr ? *options.port : io::system_port();
}
[[nodiscard]] bool is_folder(const std::filesystem::path& path, const OpenOptions& options);
[[nodiscard]] std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder,
                                                          std::span<const std::string> names);
/// Whether the source is a file that was opened by its path, so that other files can lie beside it.
[[nodiscard]] bool lies_in_a_folder(const io::Source& source) noexcept;

// Files that are one model (shard_set.cpp).

/// `missing_shard` names the files that do not exist.
[[nodiscard]] Result<void> check_all_there(const std::vector<std::filesystem::path>& paths,
                                           const OpenOptions& options, const SetView& view);
/// One file with its own catalog, and the files that it refers to. `name` is the file's own path where the
/// file lies under a temporary one. A format that has no name for its tensor uses the stem of the path.
[[nodiscard]] Result<ModelFiles> open_one(std::shared_ptr<const io::Source> source,
                                          const OpenOptions& options, const std::filesystem::path& name = {});
/// Each of these files, in this order. `missing_shard` names the files that do not exist.
[[nodiscard]] Result<std::vector<ModelFiles>> open_shards(const std::vector<std::filesystem::path>& paths,
                                                          const OpenOptions& options, const SetView& view);
/// All of them as one model. A key's value is that of the first shard that has the key; keys that begin with
/// `left_out` are dropped. `duplicate_tensor` where two shards have a tensor of the same name.
[[nodiscard]] Result<ModelFiles> merge(std::vector<ModelFiles> shards, std::string_view left_out = {});
/// The shards that the index at `path` names. `missing_shard` where shards are missing, or the index skips
/// some of a numbered set; `stale_index` where index and shards do not agree.
[[nodiscard]] Result<ModelFiles> open_indexed(const std::filesystem::path& path, const ShardIndex& index,
                                              const OpenOptions& options, const SetView& view);

// The models that a folder holds, by the names of its files (model_folder.cpp).

/// One model of a folder: an index, or the files themselves in their order.
struct FolderModel {
  std::vector<std::filesystem::path> files;
  bool is_index = false;
  /// The files are named `-00001-of-00004`; all of them are listed, also the missing ones.
  bool is_numbered = false;
};

struct FolderModels {
  std::vector<FolderModel> models;
  /// Where their files lie, if sets are being replaced.
  SetView view;
};

/// All models of a folder, sorted by name; at least one. An index is preferred to the files that it may name,
/// and `model.safetensors.index.json` to indexes of variants. Without an index, numbered files are one model,
/// and so are all files without a number of a format with `Sharding::index`.
///
/// `not_found` where there is none: the hint names a folder with weights below it, or how to convert the
/// files that are there instead.
[[nodiscard]] Result<FolderModels> models_of_folder(const std::filesystem::path& folder,
                                                    const OpenOptions& options);
/// `not_found`: names the models, ten at most.
[[nodiscard]] Error several_models(const std::filesystem::path& folder,
                                   const std::vector<FolderModel>& models);

}  // namespace ht::inline v1
