// Finds and opens the files of a model from the user's path, and builds one catalog for all of them.
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
#include "io/port/port.hpp"
#include "model/journal/set_journal.hpp"

namespace ht::inline v1 {

struct ModelFile {
  std::filesystem::path path;
  /// Null if the file is missing, which `allow_incomplete` allows for external data files.
  std::shared_ptr<const io::Source> source;
};

struct ModelFiles {
  Catalog catalog;
  /// The files, by the file number of entries.
  std::vector<ModelFile> files;
  /// The index that names the files.
  std::optional<std::filesystem::path> index = std::nullopt;
};

/// Opens a file of any format, one part of a split model, a shard index, or a folder that holds one model.
[[nodiscard]] Result<ModelFiles> open_model_files(const std::filesystem::path& path,
                                                  const OpenOptions& options);
/// Opens several models as one, see `Model::open_merged`. `bad_state` without a path.
[[nodiscard]] Result<ModelFiles> open_merged_files(std::span<const std::filesystem::path> paths,
                                                   const OpenOptions& options);

[[nodiscard]] inline io::Port& port_of(const OpenOptions& options) noexcept {
  return options.port != nullptr ? *options.port : io::system_port();
}
[[nodiscard]] bool is_folder(const std::filesystem::path& path, const OpenOptions& options);
[[nodiscard]] std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder,
                                                          std::span<const std::string> names);
/// Whether the source is a file that was opened by its path, so that it has a folder with other files.
[[nodiscard]] bool is_opened_by_path(const io::Source& source) noexcept;

// Files that are one model (shard_set.cpp).

/// Fails with `missing_shard`, which names the files, if some do not exist. All paths are in one folder.
[[nodiscard]] Result<void> check_all_exist(const std::vector<std::filesystem::path>& paths,
                                           const OpenOptions& options, const SetView& view);
/// Opens one file with its own catalog, and the files that it refers to. `name` is the final path of a file
/// that still has a temporary name. A format without tensor names uses the stem of the path.
[[nodiscard]] Result<ModelFiles> open_one(std::shared_ptr<const io::Source> source,
                                          const OpenOptions& options, const std::filesystem::path& name = {});
/// Opens these files, in this order. `missing_shard` names the files that do not exist, relative to the
/// folder of the model.
[[nodiscard]] Result<std::vector<ModelFiles>> open_shards(const std::vector<std::filesystem::path>& paths,
                                                          const std::filesystem::path& folder,
                                                          const OpenOptions& options, const SetView& view);
/// Merges the shards into one model. A metadata key has the value of the first shard with that key; keys that
/// begin with `excluded_prefix` are dropped. `duplicate_tensor` if two shards have a tensor of the same name.
[[nodiscard]] Result<ModelFiles> merge(std::vector<ModelFiles> shards, std::string_view excluded_prefix = {});
/// Opens the shards that the index at `path` names. `missing_shard` if shards are missing, or if the index
/// skips some of a numbered set; `stale_index` if index and shards do not agree.
[[nodiscard]] Result<ModelFiles> open_indexed(const std::filesystem::path& path, const ShardIndex& index,
                                              const OpenOptions& options, const SetView& view);

// The models that a folder holds, by the names of its files (model_folder.cpp).

/// One model of a folder: an index, or the files themselves in their order.
struct FolderModel {
  std::vector<std::filesystem::path> files;
  bool is_index = false;
  /// The files are named `-00001-of-00004`; missing files are listed too.
  bool is_numbered = false;
};

struct FolderModels {
  std::vector<FolderModel> models;
  /// Maps names to temporary files while sets are being replaced.
  SetView view;
};

/// Returns the models of a folder, at least one. Their order depends only on the names of the files. If the
/// folder has indexes, each index is one model, and files that no index names are ignored. Beside
/// `model.safetensors.index.json`, other indexes (of variants) are ignored, too. Without an index, the files
/// of a numbered set are one model. All unnumbered files of a format with `Format::Sharding::index` are one
/// model, too.
///
/// `not_found` if the folder has no model: the hint names a subfolder with weights, or says how to convert
/// files of other formats.
[[nodiscard]] Result<FolderModels> models_of_folder(const std::filesystem::path& folder,
                                                    const OpenOptions& options);
/// Returns a `not_found` error that names up to ten of the models.
[[nodiscard]] Error several_models(const std::filesystem::path& folder,
                                   const std::vector<FolderModel>& models);

}  // namespace ht::inline v1
