// The state that a Model, its copies and its tensors share, and access to it for other folders of the
// library.
#pragma once

#include <filesystem>
#include <htensor/base/glob.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
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
  bool has_path = true;                        // false for bytes, a descriptor, a source of the caller's
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

/// What the tensors have in their files, in the order of the files; those that touch, or have no more than
/// `gap_bytes` between them, as one.
[[nodiscard]] std::vector<io::FileRange> merged_ranges(const Catalog& catalog,
                                                       std::span<const std::size_t> tensors,
                                                       std::uint64_t gap_bytes = 0);

/// The name of the tensor that has the byte at an offset of a file; may be empty. For who wants it once.
[[nodiscard]] std::string name_at(const Catalog& catalog, std::size_t file, std::uint64_t offset);

struct ModelAccess {
  [[nodiscard]] static const ModelState& state(const Model& model) noexcept { return *model.state_; }
  [[nodiscard]] static const ModelState& state(const AnyTensor& tensor) noexcept { return *tensor.state_; }
  /// With which another file of the same kind can be opened.
  [[nodiscard]] static OpenOptions open_options(const Model& model);

  /// Whether the tensor's bytes are in memory of the model's own.
  [[nodiscard]] static bool is_resident(const AnyTensor& tensor) noexcept { return tensor.is_resident(); }
  /// The tensor that a slice is a part of.
  [[nodiscard]] static AnyTensor whole(AnyTensor tensor) noexcept {
    tensor.rows_ = nullptr;
    return tensor;
  }
  /// The source of a tensor that is there.
  [[nodiscard]] static const io::Source& source_of(const AnyTensor& tensor) {
    return state(tensor).mapped->file(tensor.entry().file).source();
  }
  /// Whether the bytes of an entry that is not a splat can be used; maps nothing.
  [[nodiscard]] static Result<void> check_is_there(const ModelState& state, const Entry& entry);
  /// `bad_state` where the model was opened for its catalog alone, `missing_shard` where a file is missing.
  [[nodiscard]] static Result<void> check_all_there(const Model& model);
  /// The tensors whose names match and that have bytes in files; fails where one of their files is missing.
  /// `not_found` where no name matches, unless the filter takes every name.
  [[nodiscard]] static Result<std::vector<std::size_t>> tensors_matching(const Model& model,
                                                                         const NameFilter& glob);
  /// Adds the file and the tensor to an error.
  [[nodiscard]] static Error located(const Model& model, Error error);
  /// Brings pages of a part of the stored bytes into memory, all at once and not one by one as they are
  /// touched.
  [[nodiscard]] static Result<void> fetch(const AnyTensor& tensor, std::uint64_t begin, std::uint64_t count);
};

}  // namespace ht::inline v1
