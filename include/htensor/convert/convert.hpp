// Conversion between formats: first a plan, which writes nothing and can be inspected, then the files.
//
// Unchanged bytes are shared or copied by the file system if possible, else through a small ring of buffers;
// memory use does not depend on tensor sizes (docs/convert.md). Writes are atomic and durable: a file, or a
// set of files, is replaced as a whole even if the process ends. A model may be converted onto its own files.
// The plan lists the data that the target format cannot hold; `apply` fails unless the options allow that
// loss.
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

/// Renames the tensors whose names match. One `*` on each side stands for the same text: `model.*` to `*`.
struct Rename {
  std::string from;
  std::string to;
};

/// Converts the tensors whose names match to another dtype ("BF16") or block encoding ("Q8_0"). A pattern
/// without a wildcard converts its tensor in any case. A pattern with a wildcard converts:
/// - to a floating-point dtype: floating-point and encoded tensors, not integers and booleans
/// - to another dtype: all dense tensors
/// - to an encoding: floating-point tensors of two dimensions or more whose rows are whole blocks, except
///   norms and biases ("norm" or ".bias" in the name)
struct TypeRule {
  std::string pattern;
  std::string type;
};

struct ConvertOptions {
  /// One of `format_names`; if empty, the format of the target's extension.
  std::string format{};
  /// The caller's formats that source or target may have, besides the library's.
  std::vector<Format> formats{};
  /// The tensors to convert, by their names in the source.
  NameFilter glob{};
  /// The first rename that matches a name applies. `not_found` if a rename changes no tensor.
  std::vector<Rename> renames{};
  /// Whether metadata is converted. If false, the missing metadata does not count as a loss.
  bool metadata = true;
  /// Alignment of tensor data, a power of two; 0 is the format's default.
  std::uint64_t alignment = 0;
  /// Orders tensors as the format's reference writer does, so that files are identical byte for byte.
  bool canonical = false;
  /// Makes all tensors row-major and little-endian. If false, only those whose layout the format cannot
  /// store.
  bool normalize_layout = false;
  /// Places data so that its blocks can be shared with the source, on file systems with reflinks.
  bool share_blocks = false;
  /// Whether an IRPA file stores dtypes and shapes of its tensors, in the form that IREE's tools read.
  bool tensor_notes = true;
  /// The first rule that matches a name applies. A rule that changes no tensor is `not_found`, an unknown
  /// type `bad_dtype`.
  std::vector<TypeRule> types{};
  /// Encoded tensors that no rule changes are decoded to this dtype; if empty, they stay encoded.
  std::string dequantize{};
  /// How values are rounded if the dtype of a rule does not hold all of them.
  Rounding rounding{};
  /// Splits the model into files of about this many bytes of data; 0 writes one file. For formats with
  /// `Sharding`: safetensors and GGUF.
  std::uint64_t shard_bytes = 0;
};

enum class LossKind : std::uint8_t {
  metadata,   ///< a key of the metadata, or the note of a tensor, is left out
  raw_bytes,  ///< a tensor keeps its bytes and loses its dtype, encoding or shape
  rounding,   ///< values of a tensor are rounded to another dtype
};

/// Data that the target format cannot hold.
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
  /// From the options; needed to open the target for sealing.
  std::vector<Format> formats{};
  /// The requested file. With shards it names a set: `apply` with `IfExists::replace` removes old shards of
  /// that set.
  std::filesystem::path target{};
  bool is_sharded = false;
  /// In the order in which the files are renamed into place.
  std::vector<PlannedFile> files;
  /// All data of the source that the files will not contain.
  std::vector<Loss> losses;
  /// Reasons why the format's usual readers refuse the files, although the format allows them.
  std::vector<Error> warnings{};
  std::uint64_t tensors = 0;
  /// Index in `files` of the file to open the model by: the shard index, else the first file.
  std::size_t opened = 0;
  /// The files of the source model; nullopt for a missing file.
  std::vector<std::optional<PlannedSource>> sources{};

  /// The size of all files.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// The path of `opened`.
  [[nodiscard]] const std::filesystem::path& model_path() const noexcept;
};

/// Plans a conversion of this model. `would_lose` only for data that can neither be stored nor left out;
/// other losses are in the plan.
[[nodiscard]] Result<ConversionPlan> plan_conversion(const Model& source, const std::filesystem::path& target,
                                                     const ConvertOptions& options = {});

/// `ConversionPlan::sources` of a model, for programs that build a plan themselves.
[[nodiscard]] std::vector<std::optional<PlannedSource>> identities_of(const Model& source);

struct ApplyOptions {
  io::IfExists if_exists = io::IfExists::fail;
  /// Which losses of a plan are allowed; a plan with any other loss is `would_lose`.
  bool drop_metadata = false;
  bool raw_bytes = false;
  bool round = false;
  /// Allows all losses.
  bool lossy = false;
  /// Also writes the target's seal, computed during the copy.
  bool seal = false;
  WorkOptions work{};
};

struct Converted {
  std::vector<std::filesystem::path> written;
  std::uint64_t bytes = 0;
  CopiedBy copied_by;
  /// Shards and index of the replaced set whose names were not reused.
  std::vector<std::filesystem::path> removed{};
  /// The target's seal, if it was requested or the target was sealed before.
  std::optional<std::filesystem::path> seal;
  /// A seal that covers a replaced file and was not renewed, because it also covers other files.
  std::optional<std::filesystem::path> stale_seal;
};

/// Whether the options allow the loss.
[[nodiscard]] bool is_allowed(const Loss& loss, const ApplyOptions& options) noexcept;

class Application;

/// A plan that passed all checks that read no data, for programs that check before they write. The plan and
/// the model have to outlive the CheckedPlan.
class CheckedPlan {
 public:
  CheckedPlan(CheckedPlan&&) noexcept;
  CheckedPlan& operator=(CheckedPlan&&) noexcept;
  ~CheckedPlan();

  /// The files of an old set that `apply` removes, as in `Converted::removed`.
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
/// if the files have changed since. A model that was opened again from the same files matches.
[[nodiscard]] Result<CheckedPlan> check_plan(const ConversionPlan& plan, const Model& source,
                                             const ApplyOptions& options = {});

/// Checks the plan, then writes the files. Errors of `check_plan`; `changed_underfoot` also if a file of the
/// model changes meanwhile; `write_failed`, `no_space`, `cancelled`; `in_use` while another program writes
/// the same set. If only the removal of an old shard or the fsync of the folder fails, all files and their
/// seal are in place.
///
/// A sharded plan that replaces a set removes the old shards: the files that the old index names or, without
/// an index, the files that are numbered as shards of the same name. Other files stay.
[[nodiscard]] Result<Converted> apply(const ConversionPlan& plan, const Model& source,
                                      const ApplyOptions& options = {});

/// Plans and applies.
[[nodiscard]] Result<Converted> convert(const Model& source, const std::filesystem::path& target,
                                        const ConvertOptions& options = {}, const ApplyOptions& how = {});

}  // namespace ht::inline v1
