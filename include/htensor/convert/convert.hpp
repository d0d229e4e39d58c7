// Conversion between formats: first a plan, which writes nothing and can be inspected, then the files.
//
//   const auto plan = HT_TRY(ht::plan_conversion(model, "model.safetensors"));
//   for (const ht::PlannedFile& file : plan.files) print(file.path, file.bytes);
//   for (const ht::Loss& loss : plan.losses) print(loss.name, loss.why, loss.hint);
//   const auto done = HT_TRY(ht::apply(plan, model, {.drop_metadata = true}));
//   print(done.bytes, done.copied_by.reflink);
//
//   HT_TRY(ht::convert(model, "small.gguf", {.types = {{"*", "Q8_0"}}}));      // plans and applies
//
// Unchanged bytes are shared if the file system can, else copied by direct I/O, by the kernel, or through a
// few small buffers; memory use does not depend on tensor sizes (docs/convert.md). Writes are atomic and
// durable: a file, or a set of files, is replaced as a whole even if the process ends. The target may be the
// model's own file. The plan lists the data that the target format cannot hold; `apply` fails unless the
// options allow that loss. A plan is a value and does not keep the model open; pass the same model to
// `apply`. Many threads may call the functions at once.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <htensor/format/names.hpp>
#include <htensor/model/model.hpp>
#include <htensor/values/cast.hpp>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

// The plan of a file before it is written: the origin of every part.

namespace ht::inline v1 {

struct Relayout;

/// The origin of the bytes of a part of a planned file.
struct PartOrigin {
  /// Bytes in one of the source's files.
  struct Stored {
    std::uint32_t file = 0;
    std::uint64_t offset = 0;

    friend bool operator==(const Stored&, const Stored&) = default;
  };

  /// A pattern that is repeated, as for a splat.
  struct Repeated {
    std::array<std::byte, 16> pattern{};
    std::uint8_t pattern_bytes = 1;

    [[nodiscard]] Bytes bytes() const noexcept { return {pattern.data(), pattern_bytes}; }
    friend bool operator==(const Repeated&, const Repeated&) = default;
  };

  /// A tensor in one of the source's files that is made row-major and little-endian during the copy.
  struct Reordered {
    std::uint32_t file = 0;
    /// Offset of the tensor in the file.
    std::uint64_t offset = 0;
    /// Index into `PlannedFile::relayouts`.
    std::uint32_t relayout = 0;
    /// Offset of these bytes in the row-major, little-endian tensor.
    std::uint64_t result_offset = 0;
  };

  /// A tensor in one of the source's files whose values are converted during the copy.
  struct Converted {
    std::uint32_t file = 0;
    /// Offset of the stored tensor in the file.
    std::uint64_t offset = 0;
    /// Index into `PlannedFile::changes`.
    std::uint32_t change = 0;
    /// Offset of these bytes in the converted tensor.
    std::uint64_t result_offset = 0;
  };
};

/// A file that a plan writes: a generated header, then parts of other origins.
struct PlannedFile {
  /// The conversion of a tensor's values to another dtype or encoding.
  struct ValueChange {
    ElementType from;
    ElementType to;
    Rounding rounding{};
    std::uint64_t elements = 0;
    /// Makes the stored tensor row-major and little-endian first; null if it already is.
    std::shared_ptr<const Relayout> relayout{};
  };

  /// A part of a planned file.
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    /// `Bytes` are in memory and must stay valid until the plan is applied.
    std::variant<PartOrigin::Stored, Bytes, PartOrigin::Repeated, PartOrigin::Reordered,
                 PartOrigin::Converted>
        from{};
  };

  std::filesystem::path path;
  std::uint64_t bytes = 0;
  /// The bytes at the start of the file that the plan has generated.
  std::vector<std::byte> header{};
  /// The parts after the header, sorted by offset, without overlap. Bytes that no part covers are zero.
  std::vector<Part> parts{};
  /// Indexed by `PartOrigin::Reordered::relayout`.
  std::vector<std::shared_ptr<const Relayout>> relayouts{};
  /// Indexed by `PartOrigin::Converted::change`.
  std::vector<ValueChange> changes{};
  /// Completes the header with the checksum of all parts (`Format::finish`); null if the header is complete.
  void (*finish)(MutableBytes header, std::uint64_t data_crc64nvme) = nullptr;
};

/// The number of bytes of the source that each copy method has copied.
struct CopiedBy {
  std::uint64_t reflink = 0;          ///< shared blocks, stored once for both files
  std::uint64_t direct = 0;           ///< direct I/O, in large pieces
  std::uint64_t copy_file_range = 0;  ///< by the kernel
  std::uint64_t read_write = 0;       ///< through a few small buffers
};

struct ConvertOptions {
  /// Renames the tensors whose names match. One `*` on each side stands for the same text: `model.*` to `*`.
  struct Rename {
    std::string from;
    std::string to;
  };

  /// Converts the tensors whose names match to another dtype ("BF16") or block encoding ("Q8_0"). A pattern
  /// without a wildcard, such as one of `escape_glob`, converts its tensor in any case. A pattern with a
  /// wildcard converts:
  /// - to a floating-point dtype: floating-point and encoded tensors, not integers and booleans
  /// - to another dtype: all dense tensors
  /// - to an encoding: floating-point tensors of two dimensions or more whose rows are whole blocks, except
  ///   splats, norms ("norm" in the name) and biases (".bias" at the end of the name)
  struct TypeRule {
    std::string pattern;
    std::string type;
  };

  /// One of `format_names`; if empty, the format of the target's extension.
  std::string format{};
  /// The caller's formats that source or target may have, besides the library's.
  std::vector<Format> formats{};
  /// The tensors to convert, by their names in the source.
  NameFilter filter{};
  /// The first rename that matches a name applies. `not_found` if a rename applies to no tensor.
  std::vector<Rename> renames{};
  /// Whether metadata is converted. If false, the missing metadata does not count as a loss.
  bool metadata = true;
  /// Alignment of tensor data, a power of two; 0 is the format's default.
  std::uint64_t alignment = 0;
  /// Orders tensors as the format's reference writer does, so that files are identical byte for byte.
  bool canonical = false;
  /// Makes all tensors row-major and little-endian. If false, only the tensors whose layout the format cannot
  /// store are changed.
  bool normalize_layout = false;
  /// Places data so that a file system with reflinks can share its blocks with the source.
  bool share_blocks = false;
  /// Whether an IRPA file stores dtypes and shapes of its tensors, in the form that IREE's tools read.
  bool tensor_notes = true;
  /// For each tensor, the first rule applies that matches its name and, with a wildcard, its type. A rule
  /// that applies to no tensor is `not_found`, an unknown type `bad_dtype`.
  std::vector<TypeRule> types{};
  /// Encoded tensors that no rule changes are decoded to this dtype; if empty, they stay encoded. `bad_dtype`
  /// for a name that is not a dtype, such as that of a block encoding.
  std::string dequantize{};
  /// How values are rounded if the dtype of a rule does not hold all of them.
  Rounding rounding{};
  /// Splits the model into files of about this many bytes of data; 0 writes one file. For formats with
  /// `Format::Sharding`: safetensors and GGUF.
  std::uint64_t shard_bytes = 0;
};

/// Data that the target format cannot hold.
struct Loss {
  enum class Kind : std::uint8_t {
    metadata,   ///< a key of the metadata, or the note of a tensor, is left out
    raw_bytes,  ///< a tensor keeps its bytes and loses its dtype, encoding or shape
    rounding,   ///< values of a tensor are rounded to another dtype
  };

  /// The name of a tensor or a key of the metadata.
  std::string name;
  Kind kind = Kind::metadata;
  bool is_tensor = false;
  /// Why the data cannot be kept, as a sentence.
  std::string why;
  /// An alternative without the loss.
  std::string hint;
  /// The type and shape before and after, for `raw_bytes` and `rounding`: "F8_E4M3 [8] → I8 [8]".
  std::string change{};
};

struct ConversionPlan {
  /// A file of the model for which the plan was made.
  struct Source {
    std::filesystem::path path;
    io::Source::Identity identity;
  };

  std::string format;
  /// The formats of the options; `apply` needs them to open the target for its seal.
  std::vector<Format> formats{};
  /// The requested file. For a sharded plan it names a set: `apply` with `IfExists::replace` removes old
  /// shards of that set.
  std::filesystem::path target{};
  bool is_sharded = false;
  /// The files to write: shards in order, then the index. `apply` gives the file at `main_file` its name
  /// last.
  std::vector<PlannedFile> files;
  /// The losses of the conversion: keys of the metadata, types and shapes, exact values. Rounding by an
  /// encoding that a rule names, or by `dequantize`, is not listed.
  std::vector<Loss> losses;
  /// Reasons why common readers may refuse the files, although the format allows them.
  std::vector<Error> warnings{};
  std::uint64_t tensors = 0;
  /// The index in `files` of the file by which the target is opened: the shard index, else the first file.
  std::size_t main_file = 0;
  /// The files of the source model; nullopt for a missing file.
  std::vector<std::optional<Source>> sources{};

  /// The size of all files.
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// The path of the file at `main_file`.
  [[nodiscard]] const std::filesystem::path& model_path() const noexcept;
};

/// Plans a conversion of this model. `would_lose` only for data that can neither be stored nor left out, and
/// for shards that the format cannot have; other losses are in the plan.
[[nodiscard]] Result<ConversionPlan> plan_conversion(const Model& source, const std::filesystem::path& target,
                                                     const ConvertOptions& options = {});

/// Returns `ConversionPlan::sources` of a model, for programs that build a plan themselves.
[[nodiscard]] std::vector<std::optional<ConversionPlan::Source>> identities_of(const Model& source);

struct ApplyOptions {
  IfExists if_exists = IfExists::fail;
  /// The losses to allow, by Loss::Kind; a plan with any other loss is `would_lose`.
  bool drop_metadata = false;
  bool raw_bytes = false;
  bool round = false;
  /// Allows all losses.
  bool lossy = false;
  /// Also writes the target's seal: CRC-64/NVME, from checksums taken during the copy. To renew a seal of
  /// another algorithm, the new files are read again.
  bool seal = false;
  WorkOptions work{};
};

/// The files that a conversion has written.
struct ConversionReport {
  std::vector<std::filesystem::path> written;
  std::uint64_t bytes = 0;
  CopiedBy copied_by;
  /// Shards, index and seal of the replaced set whose names were not reused.
  std::vector<std::filesystem::path> removed{};
  /// The target's seal, if it was requested or the target was sealed before.
  std::optional<std::filesystem::path> seal;
  /// A seal that covers a replaced file and was not renewed, because it also covers other files.
  std::optional<std::filesystem::path> stale_seal;
};

/// Whether the options allow the loss.
[[nodiscard]] bool is_allowed(const Loss& loss, const ApplyOptions& options) noexcept;

class PlanExecution;

/// A plan that has passed all checks that read no data, for programs that check before they write. The plan
/// and the model must outlive the CheckedPlan. For one thread at a time.
class CheckedPlan {
 public:
  CheckedPlan(CheckedPlan&&) noexcept;
  CheckedPlan& operator=(CheckedPlan&&) noexcept;
  ~CheckedPlan();

  /// The files of the replaced set that `apply` removes, as in `ConversionReport::removed`.
  [[nodiscard]] const std::vector<std::filesystem::path>& removed() const noexcept;
  /// Writes the files. Looks up only the old files and the old seal again, because another program may have
  /// replaced them since the checks. Locks a set until its files are in place.
  [[nodiscard]] Result<ConversionReport> apply(const WorkOptions& work = {}) &&;

 private:
  friend Result<CheckedPlan> check_plan(const ConversionPlan& plan, const Model& source,
                                        const ApplyOptions& options);
  explicit CheckedPlan(std::shared_ptr<PlanExecution> execution) noexcept;
  std::shared_ptr<PlanExecution> execution_;
};

/// Checks a plan before its first write. `would_lose` for losses that the options do not allow,
/// `already_exists` and `not_regular_file` for the target, `bad_name` and `already_exists` for its seal,
/// `changed_underfoot` for a plan of another model or if the files have changed since. A model that was
/// opened again from the same files matches.
[[nodiscard]] Result<CheckedPlan> check_plan(const ConversionPlan& plan, const Model& source,
                                             const ApplyOptions& options = {});

/// Checks the plan, then writes the files. Errors of `check_plan`; `changed_underfoot` also if a file of the
/// model changes meanwhile; `write_failed`, `no_space`, `cancelled`; `in_use` while another program writes
/// the same set. The last step is the fsync of the folder (a single file) or the removal of old files (a set).
/// If only that step fails, the Error is returned although all new files and their seal are in place.
///
/// A sharded plan that replaces a set removes the old shards: the files that the old index names or, without
/// an index, the files that are numbered as shards of the same name. Other files stay.
[[nodiscard]] Result<ConversionReport> apply(const ConversionPlan& plan, const Model& source,
                                             const ApplyOptions& options = {});

/// Plans and applies in one call, with the errors of both.
[[nodiscard]] Result<ConversionReport> convert(const Model& source, const std::filesystem::path& target,
                                               const ConvertOptions& options = {},
                                               const ApplyOptions& apply_options = {});

}  // namespace ht::inline v1
