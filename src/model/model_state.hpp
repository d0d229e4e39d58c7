// What a Model and its copies share.
#pragma once

#include <filesystem>
#include <htensor/io/mapped.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>
#include <vector>

namespace ht::inline v1 {

struct Model::State {
  std::shared_ptr<const Catalog> catalog;  // shared with the mappings, which outlive the model
  std::filesystem::path opened;            // as the user named it: a file, or the index or folder of several
  std::vector<std::filesystem::path> paths;
  // As many as paths, without those that are missing; none where only the catalog was wanted.
  std::vector<std::optional<io::Mapped>> files;
  std::vector<DTypeInfo> dtypes;
};

}  // namespace ht::inline v1
