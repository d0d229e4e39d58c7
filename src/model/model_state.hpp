// The state that a Model, its copies and its tensors share.
#pragma once

#include <filesystem>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "io/strategies.hpp"
#include "model/residency_shell.hpp"

namespace ht::inline v1 {

struct ModelState {
  std::shared_ptr<const Catalog> catalog;  // shared with the mappings, which may outlive the model
  std::filesystem::path opened;            // as the user named it: a file, or the index or folder of several
  std::vector<std::filesystem::path> paths;
  std::optional<std::filesystem::path> index;  // that named the files
  bool is_merged = false;                      // of several models; `opened` is the first
  bool has_data = true;                        // false where only the catalog was requested
  std::vector<DTypeInfo> dtypes;
  std::vector<Format> formats;  // of the caller's
  io::Port* port = nullptr;
  FaultPolicy faults = FaultPolicy::guarded;
  // One source for each path, null where a file is missing; none without data.
  std::unique_ptr<io::MappedStrategy> mapped;
  // Its states change, which is not visible in the model.
  std::unique_ptr<ResidencyShell> residency;
};

}  // namespace ht::inline v1
