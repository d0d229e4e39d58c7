// Source text of the kernels: one template per operation, with placeholders for element types.
#pragma once

#include <cstdint>
#include <htensor/dtype/dtypes.hpp>
#include <string>
#include <string_view>

namespace ht::inline v1::opencl {

/// Number of parallel lanes of a reduction. It is the same on all devices, so the result of a sum does not
/// depend on the number of processors.
inline constexpr std::uint64_t reduction_lanes = 1024;
/// Work-items per work-group, and rows and columns of a tile of `matmul`.
inline constexpr std::size_t group_size = 64;
inline constexpr std::size_t tile_size = 16;
/// Maximum vectors for `linear_vectors`. For so few vectors, the tiles of `matmul` would be mostly empty.
inline constexpr std::int64_t max_vectors = 8;

/// Kernels of the operations of `slice::Core`: `add`, `subtract`, `multiply` and `divide`, each also with
/// `_strided`; `copy_strided`, `reduce_sum` and `reduce_max`. `dtype` must be one that OpenCL devices compute
/// in. `divide` exists for floating-point dtypes only.
[[nodiscard]] std::string core_text(DTypeTag dtype);
/// `matmul` and `linear_vectors` in F32 or F64, with weights of dtype `weight`.
[[nodiscard]] std::string linear_text(DTypeTag dtype, DTypeTag weight);
/// `softmax`, `log_softmax`, `argmax`, `norm`, `silu`, `gelu`, `gelu_tanh`, `swiglu`, `rope` and `embedding`
/// in F32 or F64.
[[nodiscard]] std::string nn_text(DTypeTag dtype, DTypeTag weight, DTypeTag bias);
/// `conv2d` in F32 or F64.
[[nodiscard]] std::string conv_text(DTypeTag dtype, DTypeTag weight, DTypeTag bias);
/// Source text of the kernels of the operations of `slice::Nn`. `Number` is float or double, `NUMBER(x)` a
/// literal of that type, LANES is `group_size`.
[[nodiscard]] std::string_view nn_kernels();

}  // namespace ht::inline v1::opencl
