// The inner loops of convolutions. They are compiled once for each instruction set (target); all targets give
// the same bits.
#pragma once

#include <cstdint>

namespace ht::inline v1::nn {

/// T is float or double.
template <class T>
struct ConvKernels {
  /// out += factor · x
  void (*add_scaled)(T factor, const T* x, T* out, std::int64_t count) noexcept;
  /// out[i, j] = Σ weight[i, k] · columns[k, j] for `rows` rows, `depth` terms and `width` columns. `width`
  /// is a multiple of `tile_step`. Terms are added in order. Only the first `valid` columns are stored.
  void (*multiply)(const T* weight, std::int64_t rows, std::int64_t depth, const T* columns,
                   std::int64_t width, T* out, std::int64_t out_stride, std::int64_t valid) noexcept;
};

/// `width` of `multiply` is a multiple of this; the columns after the first `valid` ones are padding.
inline constexpr std::int64_t tile_step = 16;

/// The kernels of the best target of this processor.
template <class T>
[[nodiscard]] const ConvKernels<T>& conv_kernels() noexcept;
template <>
[[nodiscard]] const ConvKernels<float>& conv_kernels() noexcept;
template <>
[[nodiscard]] const ConvKernels<double>& conv_kernels() noexcept;

}  // namespace ht::inline v1::nn
