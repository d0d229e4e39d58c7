// Kernels over contiguous elements for softmax, norms, activations and rope.
//
// They are compiled once for each instruction set (target); all targets give the same bits. Sums are
// accumulated in F64: 16 interleaved sums over blocks of 512 elements, then block by block. The error is at
// most (36 + n / 512) · 2^-53 times the sum of magnitudes.
#pragma once

#include <cstdint>

namespace ht::inline v1::nn {

/// T is float or double. `out` may alias the input. Counts may be 0 except where noted.
template <class T>
struct RowKernels {
  bool (*has_nan)(const T* x, std::int64_t count) noexcept;
  /// The largest of at least one element. If an element is NaN, the result is NaN or any element.
  T (*largest)(const T* x, std::int64_t count) noexcept;
  /// out = e^(x - shift); returns the sum of the results.
  double (*exp_and_sum)(const T* x, T shift, T* out, std::int64_t count) noexcept;
  /// out = x / divisor
  void (*divide)(const T* x, T divisor, T* out, std::int64_t count) noexcept;
  double (*sum)(const T* x, std::int64_t count) noexcept;
  /// The sum of (x - mean)²
  double (*sum_of_squares)(const T* x, double mean, std::int64_t count) noexcept;
  /// out = (x - mean) · scale · weight + bias, computed in F64 and rounded once. `bias` may be null.
  void (*normalize)(const T* x, double mean, double scale, const T* weight, const T* bias, T* out,
                    std::int64_t count) noexcept;
  void (*silu)(const T* x, T* out, std::int64_t count) noexcept;
  /// out = silu(gate) · x
  void (*swiglu)(const T* gate, const T* x, T* out, std::int64_t count) noexcept;
  /// GELU in its erf form and its tanh form, computed in F64 and rounded once.
  void (*gelu_erf)(const T* x, T* out, std::int64_t count) noexcept;
  void (*gelu_tanh)(const T* x, T* out, std::int64_t count) noexcept;
  /// Rotates pairs (x[2i], x[2i + 1]) by angle i. `cosines` has each cosine twice; `sines` has each sine
  /// negated, then unchanged. `count` is even.
  void (*rotate_pairs)(const T* x, const T* cosines, const T* sines, T* out, std::int64_t count) noexcept;
  /// Rotates pairs (x[i], x[i + half]) by angle i.
  void (*rotate_halves)(const T* x, const T* cosines, const T* sines, T* out, std::int64_t half) noexcept;
};

/// The kernels of the best target of this processor.
template <class T>
[[nodiscard]] const RowKernels<T>& row_kernels() noexcept;
template <>
[[nodiscard]] const RowKernels<float>& row_kernels() noexcept;
template <>
[[nodiscard]] const RowKernels<double>& row_kernels() noexcept;

}  // namespace ht::inline v1::nn
