// From any format to any other: a plan, which is pure and can be looked at, and then the files.
//
// Bytes that do not change never pass through the heap (see DESIGN section 8); files appear whole and on the
// disk, or not at all, and a model may be converted onto its own file. What the target cannot carry is in the
// plan, and refused unless it is allowed to go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/glob.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/convert/plan.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/io/port.hpp>
#include <htensor/model/model.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ht::inline v1 {

/// Tensors whose names match get another name. One `*` on each side stands for the same text: `model.*` to
/// `*`.
struct Rename {
  std::string from;
  std::string to;
};

struct ConvertOptions {
  /// One of `format_names`; empty: what the target's extension stands for.
  std::string format{};
  /// The tensors to convert, by their names in the source.
  NameFilter glob{};
  /// The first that matches a name counts. `not_found` for one that changes none.
  std::vector<Rename> renames{};
  /// Whether the model's metadata goes along; leaving it out so is no loss.
  bool metadata = true;
  /// Where data may begin: at multiples of this power of two; 0 is the format's own.
  std::uint64_t alignment = 0;
  /// The order that the format's own writer would give the tensors, for files that are the same whoever wrote
  /// them.
  bool canonical = false;
  /// Tensors become row-major and little-endian also where the format could carry them as they are. They do
  /// wherever it cannot.
  bool usual_order = false;
  /// Places data so that its blocks can be shared with the source, for file systems that do that.
  bool share_blocks = false;
  /// Whether an IRPA tells what its tensors are, as IREE's own tools read it.
  bool tensor_notes = true;
  /// Cuts the model into files of about this many bytes of data; 0: one file. safetensors and GGUF alone.
  std::uint64_t shard_bytes = 0;
};

/// Something that the target has no place for.
struct Loss {
  /// A tensor's name or a key of the metadata.
  std::string name;
  bool is_tensor = false;
  /// What is lost, as a sentence.
  std::string why;
  /// What could be done instead.
  std::string hint;
};

struct ConversionPlan {
  std::string format;
  /// In the order in which they get their names.
  std::vector<PlannedFile> files;
  /// What the files do not have: metadata is left out, tensors of types that the format does not know are
  /// mere bytes.
  std::vector<Loss> losses;
  std::uint64_t tensors = 0;

  /// Of all files.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// What all of them are opened by: the index, or the first.
  [[nodiscard]] const std::filesystem::path& model_path() const noexcept;
};

/// `would_lose` is an Error only for what cannot be left out either.
[[nodiscard]] Result<ConversionPlan> plan_conversion(const Catalog& source,
                                                     const std::filesystem::path& target,
                                                     const ConvertOptions& options = {});

struct ApplyOptions {
  io::IfExists if_exists = io::IfExists::fail;
  /// Whether a plan with losses is applied; else `would_lose`.
  bool lossy = false;
  /// Also writes the target's seal, from the very bytes that pass by.
  bool seal = false;
  WorkOptions work{};
};

struct Converted {
  std::vector<std::filesystem::path> written;
  std::uint64_t bytes = 0;
  CopiedBy copied_by;
  /// The target's seal, if it was asked for or the target was sealed before.
  std::optional<std::filesystem::path> seal;
  /// A seal that names a replaced file and was not renewed, because it is of other files too.
  std::optional<std::filesystem::path> stale_seal;
};

/// The plan has to be of the model's catalog. `changed_underfoot` where one of the model's files is not as it
/// was when it was opened; `already_exists`, `write_failed`, `no_space`, `cancelled`; `in_use` where several
/// files would take the place of the model's own, which cannot be done at once as it can for one. Files are
/// in place when nothing but their seal could not be written.
[[nodiscard]] Result<Converted> apply(const ConversionPlan& plan, const Model& source,
                                      const ApplyOptions& options = {});

/// Whether `apply` would refuse it before a byte is written: for what it would lose, for a target that is
/// there or cannot be, for a seal that cannot be.
[[nodiscard]] Result<void> can_apply(const ConversionPlan& plan, const Model& source,
                                     const ApplyOptions& options = {});

/// Both at once.
[[nodiscard]] Result<Converted> convert(const Model& source, const std::filesystem::path& target,
                                        const ConvertOptions& options = {}, const ApplyOptions& how = {});

}  // namespace ht::inline v1
