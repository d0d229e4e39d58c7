// From any format to any other: a plan, which is pure and can be inspected, and then the files.
//
// Bytes that do not change are shared or copied by the file system where it can, else through a small ring of
// buffers, never through one of a tensor's size (docs/convert.md). Files appear whole and on the disk, or not
// at all; a set of files is replaced as a whole, whatever ends the process. A model may be converted onto its
// own files. What the target cannot carry is in the plan, and refused unless its loss is allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/glob.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/convert/plan.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <htensor/io/port.hpp>
#include <htensor/model/model.hpp>
#include <memory>
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

/// Tensors whose names match get another dtype ("BF16") or block encoding ("Q8_0"). A pattern with a wildcard
/// takes the tensors that such a change is usual for, and one without takes its tensor in any case:
/// - to a floating-point dtype: floating-point and encoded tensors, not integers and truth values
/// - to another dtype: all dense tensors
/// - to an encoding: floating-point tensors of two dimensions or more whose rows are whole blocks, but no
/// norms
///   and biases ("norm" or ".bias" in the name)
struct TypeRule {
  std::string pattern;
  std::string type;
};

struct ConvertOptions {
  /// One of `format_names`; empty: what the target's extension stands for.
  std::string format{};
  /// Formats of the caller's that source or target may have, besides the library's.
  std::vector<Format> formats{};
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
  bool normalize_layout = false;
  /// Places data so that its blocks can be shared with the source, for file systems that do that.
  bool share_blocks = false;
  /// Whether an IRPA tells what its tensors are, as IREE's own tools read it.
  bool tensor_notes = true;
  /// The first rule that matches a name counts. A rule that changes no tensor is `not_found`, an unknown type
  /// `bad_dtype`.
  std::vector<TypeRule> types{};
  /// Encoded tensors that no rule changes become this dtype; empty: they stay.
  std::string dequantize{};
  /// How values are rounded where the dtype of a rule does not hold them all.
  Rounding rounding{};
  /// Cuts the model into files of about this many bytes of data; 0: one file. for formats with `Sharding`,
  /// which are safetensors and GGUF.
  std::uint64_t shard_bytes = 0;
};

enum class LossKind : std::uint8_t {
  metadata,   ///< a key of the metadata, or the note of a tensor, is left out
  raw_bytes,  ///< a tensor keeps its bytes and loses its dtype, encoding or shape
  rounding,   ///< values of a tensor are rounded to another dtype
};

/// Something that the target format cannot hold.
struct Loss {
  /// A tensor's name or a key of the metadata.
  std::string name;
  LossKind kind = LossKind::metadata;
  bool is_tensor = false;
  /// The rule of the format that the source breaks, as a sentence.
  std::string why;
  /// An alternative without the loss.
  std::string hint;
  /// The type and shape before and after, for `raw_bytes`: "F8_E4M3 [8] → I8 [8]".
  std::string change{};
};

/// A file of the model that a plan was made from.
struct PlannedSource {
  std::filesystem::path path;
  io::SourceIdentity identity;
};

struct ConversionPlan {
  std::string format;
  /// Of the options: the target is opened with them to be sealed.
  std::vector<Format> formats{};
  /// The file that was asked for. With shards it stands for a set: old shards of the same set are removed
  /// when the plan is applied with `IfExists::replace`.
  std::filesystem::path target{};
  bool is_sharded = false;
  /// In the order in which they get their names.
  std::vector<PlannedFile> files;
  /// Everything that the source has and the files will not have.
  std::vector<Loss> losses;
  /// Reasons why the format's usual readers refuse the files, although the format allows them.
  std::vector<Error> warnings{};
  std::uint64_t tensors = 0;
  /// The file in `files` that opens all of them: the index, else the first.
  std::size_t opened = 0;
  /// The files of the model that the plan belongs to; nullopt for one that is missing.
  std::vector<std::optional<PlannedSource>> sources{};

  /// Of all files.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// The path of `opened`.
  [[nodiscard]] const std::filesystem::path& model_path() const noexcept;
};

/// The plan belongs to this model. `would_lose` is an Error only for what cannot be left out either.
[[nodiscard]] Result<ConversionPlan> plan_conversion(const Model& source, const std::filesystem::path& target,
                                                     const ConvertOptions& options = {});

/// `ConversionPlan::sources` of a model, for a plan that a program makes by itself.
[[nodiscard]] std::vector<std::optional<PlannedSource>> identities_of(const Model& source);

struct ApplyOptions {
  io::IfExists if_exists = io::IfExists::fail;
  /// Which losses of a plan are allowed; a plan with any other loss is `would_lose`.
  bool drop_metadata = false;
  bool raw_bytes = false;
  bool round = false;
  /// All of them.
  bool lossy = false;
  /// Also writes the target's seal, from the bytes that are copied.
  bool seal = false;
  WorkOptions work{};
};

struct Converted {
  std::vector<std::filesystem::path> written;
  std::uint64_t bytes = 0;
  CopiedBy copied_by;
  /// Shards, and the index, of the set that was replaced and had other names.
  std::vector<std::filesystem::path> removed{};
  /// The target's seal, if it was asked for or the target was sealed before.
  std::optional<std::filesystem::path> seal;
  /// A seal that names a replaced file and was not renewed, because it is of other files too.
  std::optional<std::filesystem::path> stale_seal;
};

/// Whether the options allow the loss.
[[nodiscard]] bool is_allowed(const Loss& loss, const ApplyOptions& options) noexcept;

class Application;

/// A plan that has passed all checks which need no data, for programs that check before they write. The plan
/// and the model have to outlive it.
class CheckedPlan {
 public:
  CheckedPlan(CheckedPlan&&) noexcept;
  CheckedPlan& operator=(CheckedPlan&&) noexcept;
  ~CheckedPlan();

  /// The files of an old set that `apply` would remove, as `Converted::removed` has them.
  [[nodiscard]] const std::vector<std::filesystem::path>& removed() const noexcept;
  /// Writes the files. The checks are not repeated.
  [[nodiscard]] Result<Converted> apply(const WorkOptions& work = {}) &&;

 private:
  friend Result<CheckedPlan> check_plan(const ConversionPlan& plan, const Model& source,
                                        const ApplyOptions& options);
  explicit CheckedPlan(std::unique_ptr<Application> application) noexcept;
  std::unique_ptr<Application> application_;
};

/// `would_lose` for losses that the options do not allow, `already_exists` and `not_regular_file` for the
/// target, `bad_name` and `already_exists` for its seal, `changed_underfoot` for a plan of another model or
/// of files that have changed since. A model that was opened again from the same files matches.
[[nodiscard]] Result<CheckedPlan> check_plan(const ConversionPlan& plan, const Model& source,
                                             const ApplyOptions& options = {});

/// `check_plan`, then the files. `changed_underfoot` also where a file of the model changes meanwhile;
/// `write_failed`, `no_space`, `cancelled`; `in_use` while another program writes the same set. All files are
/// in place, with their seal, where only an old shard could not be removed or the folder not synced.
///
/// A sharded plan that replaces a set removes the old shards: the files that the old index names or, without
/// an index, the files that are numbered as shards of the same name. Other files stay.
[[nodiscard]] Result<Converted> apply(const ConversionPlan& plan, const Model& source,
                                      const ApplyOptions& options = {});

/// Plans and applies.
[[nodiscard]] Result<Converted> convert(const Model& source, const std::filesystem::path& target,
                                        const ConvertOptions& options = {}, const ApplyOptions& how = {});

}  // namespace ht::inline v1
