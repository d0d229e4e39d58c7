// The weights of a model as an MLIR module for IREE: one `util.global` a tensor, which points at an entry of
// a parameter archive or holds the data itself.
//
//   module {
//     util.global private @blk.0.norm = #stream.parameter.named<"model"::"blk.0.norm"> : tensor<4096xf32>
//   }
//
// IREE finds the archive (`--parameters=model=weights.irpa`) and the key in it when the program runs. The
// types say what lies in the archive:
//
//   F16 F32 F64 BF16 C64         f16 f32 f64 bf16 complex<f32>
//   I4 … I64, U4 … U64           i4 … i64: IREE's tensors have no sign, their operations do
//   BOOL                         i1, of which IREE stores each in a byte, as H-Tensor does
//   F8_E4M3 F8_E5M2 F8_E8M0      f8E4M3FN f8E5M2 f8E8M0FNU
//   F8_E4M3FNUZ F8_E5M2FNUZ F4   f8E4M3FNUZ f8E5M2FNUZ f4E2M1FN
//   all else                     i8, as many as there are bytes, in one dimension
//
// All else are block encodings, entries that the file tells nothing of, users' own dtypes, and F6_E2M3 and
// F6_E3M2: IREE gives elements of 6 bits a byte each, while files have them packed.
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
  /// What `--parameters=SCOPE=FILE` of IREE's tools calls the archive; none where it is empty.
  std::string scope{};
  /// Tensors of fewer bytes are written into the module itself: 0 for none of them, UINT64_MAX for all.
  std::uint64_t inline_below = 0;

  /// `iree` is as IREE writes its modules. `generic` is the form of an operation that every MLIR tool reads,
  /// whether it knows IREE's dialects or not (`mlir-opt --allow-unregistered-dialect`), and IREE too.
  enum class Form : std::uint8_t { iree, generic };
  Form form = Form::iree;

  /// The dialect of the attribute that names a parameter. All of IREE's compilers take `stream`; those since
  /// May 2024 know `flow`, which some of their passes over parameters want instead.
  enum class Dialect : std::uint8_t { stream, flow };
  Dialect dialect = Dialect::stream;
};

/// Takes the next part of the text. What it fails with ends the whole.
using MlirSink = std::function<Result<void>(std::string_view)>;

/// Hands out the module's text from its beginning to its end, in parts that it makes as it goes: memory is
/// that of one part and of the longest name, however many bytes are inlined. Data that is inlined is
/// row-major and little endian, whatever it is in the file. Nothing is handed out where the model cannot be
/// written: `bad_name` for a tensor without a name, which no symbol can be, `size_overflow` for a splat of
/// more bytes than 63 bits count, and `unsupported_encoding` for a tensor that is to be inlined as bytes and
/// has them in another order. A catalog is enough (`OpenOptions::catalog_only`) where nothing is inlined;
/// else the Errors are also those of `Model::raw`, and of pages that cannot be read.
[[nodiscard]] Result<void> emit_mlir(const Model& model, const MlirOptions& options, const MlirSink& write);

/// The same in one piece.
[[nodiscard]] Result<std::string> mlir_text(const Model& model, const MlirOptions& options = {});

/// Into a file: all of it or nothing, as `ht::write` does it.
[[nodiscard]] Result<void> write_mlir(const std::filesystem::path& path, const Model& model,
                                      const MlirOptions& options = {}, const WriteOptions& how = {});

}  // namespace ht::inline v1
