// The weights of a model as an MLIR module for IREE: one `util.global` per tensor, which refers to an entry
// of a parameter archive or contains the data.
//
//   module {
//     util.global private @blk.0.norm = #stream.parameter.named<"model"::"blk.0.norm"> : tensor<4096xf32>
//   }
//
// IREE resolves the archive (`--parameters=model=weights.irpa`) and the key in it at run time. The types
// describe the contents of the archive:
//
//   F16 F32 F64 BF16 C64         f16 f32 f64 bf16 complex<f32>
//   I4 … I64, U4 … U64           i4 … i64: IREE's integer types have no sign, its operations do
//   BOOL                         i1: IREE stores each in one byte, as H-Tensor does
//   F8_E4M3 F8_E5M2 F8_E8M0      f8E4M3FN f8E5M2 f8E8M0FNU
//   F8_E4M3FNUZ F8_E5M2FNUZ F4   f8E4M3FNUZ f8E5M2FNUZ f4E2M1FN
//   all else                     i8, as many as there are bytes, in one dimension
//
// All else: block encodings, entries without a type, user-defined dtypes, F6_E2M3 and F6_E3M2. IREE stores
// 6-bit elements in one byte each; weight files store them packed.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/convert/write.hpp>
#include <htensor/model/model.hpp>
#include <string>
#include <string_view>

namespace ht::inline v1 {

struct MlirOptions {
  /// The name of the archive for `--parameters=SCOPE=FILE` of IREE's tools; no scope if empty.
  std::string scope{};
  /// Tensors of fewer bytes are inlined into the module: 0 inlines no tensor, UINT64_MAX all.
  std::uint64_t inline_below = 0;

  /// `iree` is the form in which IREE prints modules. `generic` is MLIR's generic operation form, which IREE
  /// reads, and every MLIR tool without IREE's dialects (`mlir-opt --allow-unregistered-dialect`).
  enum class Form : std::uint8_t { iree, generic };
  Form form = Form::iree;

  /// The dialect of the attribute that names a parameter. All IREE compilers accept `stream`. Compilers since
  /// May 2024 also accept `flow`, which some of their passes over parameters require.
  enum class Dialect : std::uint8_t { stream, flow };
  Dialect dialect = Dialect::stream;
};

/// Receives the next part of the text. An error ends the emission.
using MlirSink = std::function<Result<void>(std::string_view)>;

/// Passes the module's text to `write`, from start to end, in parts. Memory use is one part plus the longest
/// name, independent of the inlined bytes. Inlined data is row-major and little-endian for any stored layout.
/// If nothing is inlined, a model opened with `OpenOptions::catalog_only` is enough. These errors are
/// returned before the first part: `bad_name` for a tensor with an empty name, which is not a valid symbol;
/// `size_overflow` for a splat of 2^63 bytes or more; `unsupported_encoding` for a tensor to inline as bytes
/// that is not row-major and little-endian. With inlined data also the errors of `Model::raw`, and an Error
/// for unreadable pages.
[[nodiscard]] Result<void> emit_mlir(const Model& model, const MlirOptions& options, const MlirSink& write);

/// The same, as one string.
[[nodiscard]] Result<std::string> mlir_text(const Model& model, const MlirOptions& options = {});

/// Writes the module to a file, atomically as `ht::write` does.
[[nodiscard]] Result<void> write_mlir(const std::filesystem::path& path, const Model& model,
                                      const MlirOptions& options = {}, const WriteOptions& how = {});

}  // namespace ht::inline v1
