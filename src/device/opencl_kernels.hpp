// The text of the kernels: one template an operation, into which the element types are put.
#pragma once

#include <cstdint>
#include <htensor/dtype/dtypes.hpp>
#include <string>

namespace ht::inline v1::opencl {

/// Elements that a kernel of a reduction gathers in parallel, whatever the device: so the result of a sum
/// does not depend on the number of processors.
inline constexpr std::uint64_t reduction_lanes = 1024;
/// Work-items of a group, and rows and columns of a tile of `matmul`.
inline constexpr std::size_t group_size = 64;
inline constexpr std::size_t tile_size = 16;
/// Up to this many vectors, `linear_vectors` is faster than tiles, most of which would be empty.
inline constexpr std::int64_t max_vectors = 8;

/// Kernels of slice::Core: `add`, `subtract`, `multiply` and `divide`, each with `_strided`; `copy_strided`,
/// `reduce_sum` and `reduce_max`. `dtype` is one that an OpenCL device calculates with; `divide` is there for
/// floating-point ones.
[[nodiscard]] std::string core_text(DTypeTag dtype);
/// `matmul` and `linear_vectors` in F32 or F64, with weights of another dtype.
[[nodiscard]] std::string linear_text(DTypeTag dtype, DTypeTag weight);
/// `softmax`, `log_softmax`, `argmax`, `norm`, `silu`, `gelu`, `gelu_tanh`, `swiglu`, `rope` and `embedding`
/// in F32 or F64.
[[nodiscard]] std::string nn_text(DTypeTag dtype, DTypeTag weight, DTypeTag bias);
/// `conv2d` in F32 or F64.
[[nodiscard]] std::string conv_text(DTypeTag dtype, DTypeTag weight, DTypeTag bias);

}  // namespace ht::inline v1::opencl
