// clang-format off
// H-Tensor: opens model weights without reading their data; the compiler checks dtypes and shapes.
//
//   #include <htensor/htensor.hpp>
//
//   ht::Result<float> first_look(const std::filesystem::path& path) {
//     const auto model = HT_TRY(ht::Model::open(path));              // reads only the header
//     std::uint64_t bytes = 0;
//     for (const ht::AnyTensor& t : model) bytes += t.byte_size();   // tensors of any type, in file order
//     const auto any = HT_TRY(model.at(0));                          // or model["name"]
//     const auto all = HT_TRY(any.cast<ht::F32>());                  // a copy as F32, if no value is lost
//     const auto w = HT_TRY(any.tensor<ht::BF16, ht::Rank<2>>());    // in place, typed; or an error
//     const auto corner = static_cast<float>(w(0, 0));               // unchecked in release
//     const auto next = HT_TRY(w.at(0, 1));                          // always checked
//     const auto row = HT_TRY(w.select<0>(1));                       // a view: nothing is copied
//     const auto twice = HT_TRY(row + row);                          // BF16 + F32 would not compile
//     const auto wide = ht::as<ht::F32>(w.transpose());              // lazy: converted when read
//     HT_TRY(ht::write("row.ht", twice));                            // the whole file or nothing
//     return corner + static_cast<float>(next) + wide(0, 1) + all(0) + static_cast<float>(bytes);
//   }
//
// Models, tensors and storages are handles: copies share the bytes, and destroying the last handle releases
// them. Many threads may use const handles at once; each header states its exceptions.
//
// Terms. A dense tensor stores its elements one by one. A block encoding, such as ggml's Q4_K, stores blocks
// of elements with shared scales. A splat is a tensor that a file stores as one repeated pattern in its
// header, without data. A set is a model in several files: its shards and, if it exists, their index. A seal
// is a file of checksums beside a model. Comments name the error codes of a function in back quotes:
// `not_found`.
// clang-format on
#pragma once

#include <htensor/base/bytes.hpp>
#include <htensor/base/fault.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/compute/conv.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/embedding.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>
#include <htensor/compute/nn.hpp>
#include <htensor/convert/convert.hpp>
#include <htensor/convert/diff.hpp>
#include <htensor/convert/edit_metadata.hpp>
#include <htensor/convert/save.hpp>
#include <htensor/device/transfer.hpp>
#include <htensor/dtype/device.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/dtype/scalar.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/seal.hpp>
#include <htensor/io/source.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/load/load.hpp>
#include <htensor/model/any_tensor.hpp>
#include <htensor/model/model.hpp>
#include <htensor/tensor/block_tensor.hpp>
#include <htensor/tensor/tensor.hpp>
#include <htensor/values/cast.hpp>
#include <htensor/values/statistics.hpp>
#include <string_view>

// The version of this header and of the library that it belongs to.

namespace ht::inline v1 {

inline constexpr std::string_view library_version = "0.1.0";

}  // namespace ht::inline v1
