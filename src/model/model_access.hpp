// The state that a Model, its copies and its tensors share, and access to it for other folders of the
// library.
#pragma once

#include <filesystem>
#include <htensor/format/catalog.hpp>
#include <htensor/format/names.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/port/port.hpp"
#include "io/strategy/strategies.hpp"
#include "model/residency/residency_shell.hpp"

namespace ht::inline v1 {

struct ModelState {
  std::shared_ptr<const Catalog> catalog;  // shared with the mappings, which may outlive the model
  std::filesystem::path opened;            // path from the user: a file, an index or a folder
  std::vector<std::filesystem::path> paths;
  std::optional<std::filesystem::path> index;  // the index that names the files
  bool is_merged = false;  // whether several models were opened as one; `opened` is the path of the first
  bool has_path = true;    // false for bytes, a descriptor, the caller's own source
  bool has_data = true;    // false if only the catalog was requested
  std::vector<DTypeInfo> dtypes;
  std::vector<Format> formats;  // added by the caller
  io::Port* port = nullptr;
  FaultPolicy faults = FaultPolicy::guarded;
  // `mapped->sources()` has one source per path, null for a missing file. The list is empty if `has_data` is
  // false.
  std::unique_ptr<io::MappedStrategy> mapped;
  // Not const: a load changes the states through a const model.
  std::unique_ptr<ResidencyShell> residency;
};

/// Returns the file ranges of the tensors, sorted. Ranges that touch, or are at most `max_gap_bytes` apart,
/// are merged.
[[nodiscard]] std::vector<io::FileRange> merged_ranges(const Catalog& catalog,
                                                       std::span<const std::size_t> tensors,
                                                       std::uint64_t max_gap_bytes = 0);

/// Returns the name of the tensor at an offset of a file; may be empty. Linear in the number of tensors.
[[nodiscard]] std::string name_at(const Catalog& catalog, std::size_t file, std::uint64_t offset);

/// What `tensors_matching` does with a matching tensor whose file is missing or incomplete. `refused`: fails.
/// `allowed`: returns the tensor if at least one of its bytes is in the file, else omits the tensor.
enum class MissingBytes : bool { refused, allowed };

struct ModelAccess {
  [[nodiscard]] static const ModelState& state(const Model& model) noexcept { return *model.state_; }
  [[nodiscard]] static const ModelState& state(const AnyTensor& tensor) noexcept { return *tensor.state_; }
  /// Returns options that open another file in the same way.
  [[nodiscard]] static OpenOptions open_options(const Model& model);

  /// Whether the tensor's bytes are in memory owned by the model.
  [[nodiscard]] static bool is_resident(const AnyTensor& tensor) noexcept { return tensor.is_resident(); }
  /// Returns the whole tensor of a slice.
  [[nodiscard]] static AnyTensor whole(AnyTensor tensor) noexcept {
    tensor.rows_ = nullptr;
    return tensor;
  }
  /// Returns the source of a tensor whose file exists.
  [[nodiscard]] static const io::Source& source_of(const AnyTensor& tensor) {
    return state(tensor).mapped->file(tensor.entry().file).source();
  }
  /// `bad_state` if the model was opened with `catalog_only`.
  [[nodiscard]] static Result<void> check_has_data(const ModelState& state);
  /// Fails unless all bytes of the entry are in an open file: `bad_state` with `catalog_only`,
  /// `unsupported_encoding` for a splat, `missing_shard`, `truncated`. Does not map.
  [[nodiscard]] static Result<void> check_available(const ModelState& state, const Entry& entry);
  /// `bad_state` if the model was opened for its catalog only, `missing_shard` if a file is missing.
  [[nodiscard]] static Result<void> check_all_exist(const Model& model);
  /// Returns the tensors whose names match and that have bytes in files. `not_found` if no name matches,
  /// unless `filter.is_everything()`, which accepts a model without tensors.
  [[nodiscard]] static Result<std::vector<std::size_t>> tensors_matching(
      const Model& model, const NameFilter& filter, MissingBytes missing = MissingBytes::refused);
  /// Adds the file and the tensor to an error.
  [[nodiscard]] static Error located(const Model& model, Error error);
  /// Fetches the pages of a part of the stored bytes at once, instead of one by one at first touch.
  [[nodiscard]] static Result<void> fetch(const AnyTensor& tensor, std::uint64_t begin, std::uint64_t count);
};

}  // namespace ht::inline v1
