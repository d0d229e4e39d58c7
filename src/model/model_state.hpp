// What a Model and its copies share.
#pragma once

#include <filesystem>
#include <htensor/model/model.hpp>
#include <memory>
#include <vector>

#include "model/residency_shell.hpp"

namespace ht::inline v1 {

struct ModelState {
  std::shared_ptr<const Catalog> catalog;  // shared with the mappings, which outlive the model
  std::filesystem::path opened;            // as the user named it: a file, or the index or folder of several
  std::vector<std::filesystem::path> paths;
  std::optional<std::filesystem::path> index;  // what named these, where an index did
  bool is_merged = false;                      // of several models; `opened` is the first
  std::vector<DTypeInfo> dtypes;
  io::Port* port;
  // Has as many files as there are paths, without those that are missing; none where only the catalog was
  // wanted. Its states change, which nobody sees in the model itself.
  std::unique_ptr<ResidencyShell> residency;
};

}  // namespace ht::inline v1
