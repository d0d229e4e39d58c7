// Kernels over contiguous elements that softmax, norms, activations and rope are made of; one set a
// processor.
//
// All processors give the same bits. Sums are added in F64: 16 interleaved sums over blocks of 512 elements,
// then block after block, so that the error is at most (36 + n / 512) · 2^-53 of the sum of magnitudes.
#pragma once

#include <cstdint>

namespace ht::inline v1::nn {

/// T is float or double. `out` may be the input. Counts may be 0 except where noted.
template <class T>
struct RowKernels {
  bool (*has_nan)(const T* x, std::int64_t count) noexcept;
  /// The largest of at least one element; any element or NaN where one of them is NaN.
  T (*largest)(const T* x, std::int64_t count) noexcept;
  /// out = e^(x - shift); returns the sum of the results.
  double (*exp_and_sum)(const T* x, T shift, T* out, std::int64_t count) noexcept;
  /// out = x / divisor
  void (*divide)(const T* x, T divisor, T* out, std::int64_t count) noexcept;
  double (*sum)(const T* x, std::int64_t count) noexcept;
  /// The sum of (x - mean)²
  double (*sum_of_squares)(const T* x, double mean, std::int64_t count) noexcept;
  /// out = (x - mean) · scale · weight + bias in F64, rounded once; no bias where that is null.
  void (*normalize)(const T* x, double mean, double scale, const T* weight, const T* bias, T* out,
                    std::int64_t count) noexcept;
  void (*silu)(const T* x, T* out, std::int64_t count) noexcept;
  /// out = silu(gate) · x
  void (*swiglu)(const T* gate, const T* x, T* out, std::int64_t count) noexcept;
  /// The erf form and the tanh form, calculated in F64 and rounded once.
  void (*gelu_erf)(const T* x, T* out, std::int64_t count) noexcept;
  void (*gelu_tanh)(const T* x, T* out, std::int64_t count) noexcept;
  /// Rotates pairs (x[2i], x[2i + 1]) by the angle i. `cosines` has each cosine twice, `sines` has each sine
  /// negated, then unchanged. `count` is even.
  void (*rotate_pairs)(const T* x, const T* cosines, const T* sines, T* out, std::int64_t count) noexcept;
  /// Rotates pairs (x[i], x[i + half]) by the angle i.
  void (*rotate_halves)(const T* x, const T* cosines, const T* sines, T* out, std::int64_t half) noexcept;
};

/// The kernels of this processor.
template <class T>
[[nodiscard]] const RowKernels<T>& row_kernels() noexcept;
template <>
[[nodiscard]] const RowKernels<float>& row_kernels() noexcept;
template <>
[[nodiscard]] const RowKernels<double>& row_kernels() noexcept;

}  // namespace ht::inline v1::nn
