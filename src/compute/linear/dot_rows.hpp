// Dot products of F32 vectors with stored rows, of any dtype or block encoding whose values F32 represents.
//
// A row is widened in registers and multiplied directly: its bytes are read once for up to 4 vectors.
//
// The order of all operations is fixed. Element j of a row, as returned by `read_f32`, is multiplied by x[j]
// and added to sum j % 32 by one fused operation, which rounds once on every target. Then sums i and i + 16
// are added, i and i + 8, i and i + 4, i and i + 2, and the last two. So every target gives the same bits,
// for any number of vectors, rows and threads. With k columns and eps = 2^-24, the error is at most (k / 32 +
// 6) · eps · Σ|row[j] · x[j]| up to terms of eps², plus k · 2^-149 if products are subnormal.
//
// Q8_0 multiplies its integers q first. fma(q[i + 16], x[i + 16], q[i] · x[i]) of a block is rounded twice,
// then multiplied by the scale and added by one fused operation: to sum i for even blocks of a row, to sum
// i + 16 for odd ones. The bound is the same. A result may be infinite or NaN if 128 · (|x[i]| + |x[i + 16]|)
// exceeds the largest F32, independent of the scale.
//
// Vectors of int8 are faster, but add a rounding error; see `Int8Vectors`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/compute/linear.hpp>
#include <htensor/dtype/encoding.hpp>
#include <new>
#include <vector>

namespace ht::inline v1::compute {

using detail::WeightRows;

/// into[b · into_stride + r] = Σ_j rows[r][j] · x[b · x_stride + j] for all b < batch.
///
/// Runs on the calling thread. Mapped rows require a guarded section of the caller (htensor/base/fault.hpp).
/// Requires `values::reads_as_f32(rows.type)`. `into` overlaps neither rows nor x.
void dot_rows(const WeightRows& rows, const float* x, std::int64_t x_stride, std::int64_t batch, float* into,
              std::int64_t into_stride) noexcept;

/// Aligns vectors to cache lines, so that no load of a kernel crosses a line boundary.
template <class T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <class U>
  explicit LineAllocator(const LineAllocator<U>& /*other*/) {}
  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), alignment)); }
  void deallocate(T* from, std::size_t /*count*/) noexcept { ::operator delete(from, alignment); }
  bool operator==(const LineAllocator&) const = default;

 private:
  static constexpr std::align_val_t alignment{64};
};

/// Vectors rounded to int8, with one scale per block of 32 or 256 elements, the block size of the weights.
///
/// The scale is the largest magnitude of the block divided by 127. Rounding changes an element by at most
/// (1 + 2^-16) · scale / 2. The factor 1 + 2^-16 covers the F32 rounding of the division by the scale. A NaN
/// or infinity in a block makes its scale NaN, and with it every result of the vector.
struct Int8Vectors {
  /// `vectors` vectors of `length` elements, a multiple of the block size. Throws std::bad_alloc.
  Int8Vectors(const ElementType& weights, const float* x, std::int64_t x_stride, std::int64_t vectors,
              std::int64_t length);

  /// Elements per scale.
  std::int64_t block_elements;
  std::int64_t batch;
  std::int64_t columns;
  /// From -127 to 127.
  std::vector<std::int8_t, LineAllocator<std::int8_t>> elements;
  std::vector<float> scales;
  /// The sum of each 16 adjacent elements.
  std::vector<std::int16_t, LineAllocator<std::int16_t>> sums;
};

/// True for Q8_0, Q4_0, Q4_K, Q5_K and Q6_K.
[[nodiscard]] bool has_int8_kernel(const ElementType& type) noexcept;

/// The same as `dot_rows`; requires `has_int8_kernel`. Products that share a scale are summed as exact
/// integers. The order of other operations is fixed, so all targets give the same bits.
///
/// For the rounded vectors x', the error is at most k · eps · Σ(|w_scale · q| + |offset|) · |x'| where
/// elements are w_scale · q - offset. The offset is 0 in Q8_0 and Q4_0, and 32 · w_scale in Q6_K. Rounding
/// the vectors adds at most (1 + 2^-16) times Σ over blocks of (x_scale / 2) · Σ|row[j]|.
void dot_rows_int8(const WeightRows& rows, const Int8Vectors& x, float* into,
                   std::int64_t into_stride) noexcept;

}  // namespace ht::inline v1::compute
