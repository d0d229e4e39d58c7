// Which models a folder holds, by the names of its files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/model_files.hpp"
#include "model/set_journal.hpp"

namespace ht::inline v1 {

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
