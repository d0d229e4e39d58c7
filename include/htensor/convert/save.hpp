// Writes tensors to files: `save` writes a file of any format, `write` one tensor or data produced piece by
// piece, `write_mlir` a module for IREE.
//
//   std::vector<ht::TensorToSave> tensors{HT_TRY(ht::to_save("w", w))};
//   tensors.push_back(HT_TRY(ht::to_save("b", b)));
//   HT_TRY(ht::save("m.safetensors", tensors));
//   HT_TRY(ht::save("m.gguf", tensors, {.convert = {.types = {{"*", "Q8_0"}}}, .apply = {.seal = true}}));
//   HT_TRY(ht::write("w.ht", w));
//   HT_TRY(ht::write_mlir("w.mlir", model, {.scope = "model", .inline_below = 1024}));
//
// `save` takes tensors from memory, ranges of files and splat patterns; the caller must not modify this
// memory during the call. Ownership: a TensorToSave shares ownership of its Storage; other arguments are
// borrowed during the call. Data is written from the source without an intermediate copy; the comments of
// `write` and `to_save` state the exceptions. Mapped bytes of a file that is still at its path are copied
// from the file as `convert` copies them (reflink, direct I/O). The write is atomic and durable. An existing
// target is `already_exists` unless IfExists::replace is set. Many threads may call the functions at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/convert/convert.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/format/format.hpp>
#include <htensor/format/metadata.hpp>
#include <htensor/model/model.hpp>
#include <htensor/tensor/storage.hpp>
#include <htensor/tensor/tensor.hpp>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// Writes a tensor to a `.ht` file, or a file of any format, atomically.
//
// `write`, like `convert` and `save`, writes the bytes to a file without a name (on file systems without
// O_TMPFILE: a hidden file beside the target), calls fsync, and then gives the file the target's name. If an
// error occurs before that, the old file is unchanged and no other file is left. If only the last step fails,
// the fsync of the folder, the new file is in place and the Error says so. An existing file is refused unless
// `WriteOptions::if_exists` is `replace`. Replacing a file that is open or mapped is safe: its readers keep
// the old file. A symbolic link is replaced, not followed.

namespace ht::inline v1 {

struct WriteOptions {
  /// Whether to replace an existing file; else `already_exists`. The seal of a sealed file is renewed.
  IfExists if_exists = IfExists::fail;
  /// The operating system if null; tests substitute their own Port.
  io::Port* port = nullptr;
  /// Polled at least once per MiB. A cancelled write returns `cancelled` and leaves no file behind.
  std::stop_token stop{};
};

/// Bytes of a tensor's data, or of a file, at `offset`. They must stay unchanged until the next call of the
/// DataSource.
struct DataPiece {
  std::uint64_t offset = 0;
  Bytes bytes{};
};

/// Returns the next piece, in order and without overlap; nullopt after the last. Bytes that no piece covers
/// are a hole: they read as zero and use no disk space.
using DataSource = std::function<Result<std::optional<DataPiece>>()>;

/// Writes a tensor that is produced piece by piece, and so may be larger than memory. The checksum of the
/// data is stored if the pieces leave no hole. `already_exists`, `not_regular_file`, `write_failed`,
/// `no_space`, `in_use` for a file of a set that another program is writing, or the Error of the source.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                                 std::span<const std::int64_t> dims, const DataSource& source,
                                 const WriteOptions& options = {});

/// Writes a file of any format with data that is produced piece by piece. `file` is the result of `encode`.
/// Offsets of pieces are file offsets, after the header and before `file_bytes`. `Format::finish` stores the
/// checksum of the data if the pieces leave no hole. Errors as above, and `size_mismatch` if the header is
/// longer than the file.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const EncodedFile& file,
                                 const DataSource& source, const WriteOptions& options = {});

/// Writes dense row-major data in memory. `size_mismatch` if its size does not match dtype and dims.
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const DTypeInfo& dtype,
                                 std::span<const std::int64_t> dims, Bytes data,
                                 const WriteOptions& options = {});

/// Writes a tensor. A tensor that is not contiguous, or whose last element ends within a byte, is copied
/// first.
template <class D, class S, class Dev>
  requires HostAccessible<Dev> && placement::CanAllocate<Dev>
[[nodiscard]] Result<void> write(const std::filesystem::path& path, const Tensor<D, S, Dev>& tensor,
                                 const WriteOptions& options = {}) {
  constexpr auto dtype = dtype_info<std::remove_const_t<D>>();
  // The bits after the last element are zero in a file; in a view they belong to other elements.
  const bool whole_bytes = tensor.elements() % 8 * dtype.bits % 8 == 0;
  if (const auto data = tensor.bytes(); data && whole_bytes)
    return write(path, dtype, tensor.shape().extents(), *data, options);
  const auto dense = HT_TRY(tensor.copy());
  return write(path, dtype, tensor.shape().extents(), HT_TRY(dense.bytes()), options);
}

/// A tensor to save. It shares ownership of its Storage.
struct TensorToSave {
  /// A pattern of 1, 2, 4, 8 or 16 bytes, repeated to fill `bytes`.
  struct Splat {
    PartOrigin::Repeated pattern;
    std::uint64_t bytes = 0;
  };

  std::string name;
  DTypeTag dtype = DTypeTag::invalid;
  EncodingTag encoding = EncodingTag::dense;
  std::vector<std::int64_t> dims{};
  /// The data, row-major and little-endian. A Storage of `Storage::in_file` needs no mapping. If it has 0
  /// bytes, its file is not opened.
  std::variant<Storage, Splat> data{};
  /// The name of a group of tensors. Tensors of one group are stored together, unless
  /// `ConvertOptions::canonical` orders them. Groups are in order of first appearance, and tensors keep their
  /// order within a group. The file does not contain the name, and MlirOptions::scope is unrelated.
  std::string scope{};
};

namespace detail {

/// A TensorToSave of elements in `storage`, whose ownership it shares.
[[nodiscard]] Result<TensorToSave> to_save(std::string_view name, const DTypeInfo& dtype,
                                           layout::Extents extents, const Storage& storage,
                                           const Result<Bytes>& elements);

}  // namespace detail

/// Returns a tensor on the host as Result<TensorToSave>, which keeps the bytes alive. The bytes are used in
/// place, or copied if the last element ends within a byte. `bad_state` for a tensor that is not contiguous:
/// copy it first.
template <class D, class S>
[[nodiscard]] auto to_save(std::string_view name, const Tensor<D, S>& tensor) {
  return detail::to_save(name, dtype_info<std::remove_const_t<D>>(), tensor.shape().extents(),
                         tensor.storage(), tensor.bytes());
}

/// Returns a tensor of a model to save under `name`. A whole splat stays a splat. The bytes of other tensors
/// are used in place, and the result keeps them alive, if all of this holds: they are row-major and
/// little-endian, the last element ends at a byte boundary, and the bytes are loaded or can be mapped.
/// Otherwise the bytes are copied. The note of the tensor in its file is not saved. Errors of
/// `AnyTensor::storage` and `AnyTensor::copy_to`.
[[nodiscard]] Result<TensorToSave> to_save(std::string_view name, const AnyTensor& tensor);

struct SaveOptions {
  /// The conversion of the tensors: format, names, types, layout.
  ConvertOptions convert{};
  /// The losses to allow, the seal, an existing target.
  ApplyOptions apply{};
  Metadata metadata{};
  /// User-defined dtypes among the tensors.
  std::vector<DTypeInfo> dtypes{};
  /// The operating system if null; tests substitute their own Port.
  io::Port* port = nullptr;
};

/// Writes the tensors to `target`. The caller must not modify the memory during the call; only changes of
/// files are detected. Errors of `apply`; `duplicate_tensor` if two tensors have the same name,
/// `size_mismatch` if the size of the data does not match dtype and shape, `device_unavailable` for data on a
/// device, `truncated` if a file ends within a range.
[[nodiscard]] Result<ConversionReport> save(const std::filesystem::path& target,
                                            std::span<const TensorToSave> tensors,
                                            const SaveOptions& options = {});

namespace detail {

/// A save that has been carried out. The plan is that of `plan_save`.
struct Saved {
  ConversionPlan plan;
  ConversionReport report;
};

/// `save`, for the C API, which also returns the plan.
[[nodiscard]] Result<Saved> save_with_plan(const std::filesystem::path& target,
                                           std::span<const TensorToSave> tensors, const SaveOptions& options);

}  // namespace detail

/// Returns the files that `save` would write and the losses, and writes nothing. The plan describes these
/// tensors only; `apply` refuses the plan. Errors of `plan_conversion`, and the errors of `save` for tensors:
/// `duplicate_tensor`, `size_mismatch`, `device_unavailable`, `truncated`.
[[nodiscard]] Result<ConversionPlan> plan_save(const std::filesystem::path& target,
                                               std::span<const TensorToSave> tensors,
                                               const SaveOptions& options);

/// The checks of `save` before its first write, for a plan of `plan_save`. Returns the files of an old set
/// that `save` would remove, as in `ConversionReport::removed`. Errors of `check_plan` for losses, target and
/// seal.
[[nodiscard]] Result<std::vector<std::filesystem::path>> check_save(const ConversionPlan& plan,
                                                                    const SaveOptions& options);

/// Returns the caller's memory for a file of this many bytes; null means out of memory.
using AllocateFile = std::function<std::byte*(std::uint64_t bytes)>;

/// Writes to memory the bytes that `save` would write to a file. `allocate` is called once and returns this
/// memory. `options.convert.format` is required. After an error the memory has no defined contents.
/// `bad_state` for shards, a seal or a missing format, `out_of_memory`, and the errors of `save`.
[[nodiscard]] Result<void> save_to_memory(std::span<const TensorToSave> tensors, const AllocateFile& allocate,
                                          const SaveOptions& options);

// The weights of a model as an MLIR module for IREE: one `util.global` per tensor, which refers to an entry
// of a parameter archive or contains the data.
//
//   module {
//     util.global private @blk.0.norm = #stream.parameter.named<"model"::"blk.0.norm"> : tensor<4096xf32>
//   }
//
// At run time, IREE finds the archive (`--parameters=model=weights.irpa`) and the key in the archive. The
// types describe the contents of the archive:
//
//   F16 F32 F64 BF16 C64         f16 f32 f64 bf16 complex<f32>
//   I4 … I64, U4 … U64           i4 … i64: signless types; IREE's operations state the sign
//   BOOL                         i1: IREE stores each in one byte, as H-Tensor does
//   F8_E4M3 F8_E5M2 F8_E8M0      f8E4M3FN f8E5M2 f8E8M0FNU
//   F8_E4M3FNUZ F8_E5M2FNUZ F4   f8E4M3FNUZ f8E5M2FNUZ f4E2M1FN
//   all other types              i8: one dimension with the number of bytes
//
// The last row is for block encodings, entries without a type, user-defined dtypes, F6_E2M3 and F6_E3M2. IREE
// stores 6-bit elements in one byte each; weight files store them packed.

struct MlirOptions {
  /// The scope that names the archive in `--parameters=SCOPE=FILE` of IREE's tools; no scope if empty.
  std::string scope{};
  /// Tensors of fewer bytes are inlined into the module: 0 inlines no tensor, UINT64_MAX all.
  std::uint64_t inline_below = 0;

  /// `iree` is the form in which IREE prints modules. `generic` is MLIR's generic operation form. IREE reads
  /// it, and so do MLIR tools without IREE's dialects (`mlir-opt --allow-unregistered-dialect`).
  enum class Form : std::uint8_t { iree, generic };
  Form form = Form::iree;

  /// The dialect of the attribute that names a parameter. All IREE compilers accept `stream`. Compilers since
  /// May 2024 also accept `flow`, which some of their passes over parameters require.
  enum class Dialect : std::uint8_t { stream, flow };
  Dialect dialect = Dialect::stream;
};

/// Receives the next part of the text. An error ends the emission.
using MlirSink = std::function<Result<void>(std::string_view)>;

/// Passes the text of the module to `write`, in parts, from start to end. Memory use is one part plus the
/// longest name, independent of the inlined bytes. Inlined data is row-major and little-endian; data of
/// another layout is converted. If nothing is inlined, a model opened with `OpenOptions::catalog_only` is
/// enough.
///
/// These errors are returned before the first part: `bad_name` for a tensor with an empty name, which is not
/// a valid symbol; `size_overflow` for a splat of 2^63 bytes or more; `unsupported_encoding` for a tensor to
/// inline that is column-major or big-endian and whose layout cannot be converted. A layout cannot be
/// converted if the elements are not whole bytes, or if the module stores the tensor as `i8` bytes (last row
/// of the table above MlirOptions). With inlined data also the errors of `AnyTensor::copy_to`.
[[nodiscard]] Result<void> emit_mlir(const Model& model, const MlirOptions& options, const MlirSink& write);

/// Returns the same text as one string.
[[nodiscard]] Result<std::string> mlir_text(const Model& model, const MlirOptions& options = {});

/// Checks, before a conversion, that `emit_mlir` accepts all tensors of the planned files. Errors are those
/// that `emit_mlir` returns before the first part, with the path of the planned file, and those of parsing
/// the header of the planned file with `open_options`. Opens no file. A planned file of a caller's format is
/// not checked if its tensors cannot be listed from its header alone.
[[nodiscard]] Result<void> check_mlir(const ConversionPlan& plan, const MlirOptions& options = {},
                                      const OpenOptions& open_options = {});

/// Checks, before a conversion, that `write_mlir` can write its module afterwards. `already_exists` if the
/// module is one of `model_files`, the files of the source and of the target, or exists and `options` does
/// not allow its replacement; `write_failed` if the file cannot be written.
[[nodiscard]] Result<void> check_mlir_target(const std::filesystem::path& module,
                                             std::span<const std::filesystem::path> model_files,
                                             const WriteOptions& options = {});

/// Writes the module to a file, atomically as `ht::write` does.
[[nodiscard]] Result<void> write_mlir(const std::filesystem::path& path, const Model& model,
                                      const MlirOptions& options = {},
                                      const WriteOptions& write_options = {});

}  // namespace ht::inline v1
