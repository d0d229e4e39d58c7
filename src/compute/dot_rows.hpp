// Dot products of stored rows, of any dtype or block encoding that F32 holds, with F32 vectors.
//
// A row is widened in registers and multiplied on the way: its bytes are read once for up to 4 vectors.
//
// The order of all operations is fixed. Element j of a row, as `read_f32` gives it, is multiplied by x[j] and
// added to sum j % 16 by one fused operation, which rounds once on every target. Then sums i and i + 8 are
// added, i and i + 4, i and i + 2, and the last two. So every target gives the same bits, and neither the
// number of vectors nor that of rows or threads matters. With k columns and eps = 2^-24, the error is at most
// (k / 16 + 5) · eps · Σ|row[j] · x[j]| up to terms of eps², and k · 2^-149 where products are subnormal.
//
// Q8_0 multiplies its integers q first: fma(q[i + 16], x[i + 16], q[i] · x[i]) of a block, rounded twice, is
// multiplied by the scale and added to sum i by one fused operation. The bound is the same. A result is
// infinite where 127 · (|x[i]| + |x[i + 16]|) exceeds the largest F32, whatever the scale is.
//
// Vectors of int8 are faster, and add the error of rounding them; see `Int8Vectors`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/dtype/encoding.hpp>
#include <span>
#include <vector>

namespace ht::inline v1::compute {

/// Rows of stored elements. Packed elements begin with a whole byte in each row, blocks are whole. No
/// alignment is needed. `row_bytes` is the distance between rows, which may be negative.
struct Rows {
  ElementType type;
  const std::byte* first = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t count = 0;
  std::int64_t columns = 0;
};

/// into[b · into_stride + r] = Σ_j rows[r][j] · x[b · x_stride + j] for all b < batch.
///
/// On the calling thread; the caller guards mapped bytes. `values::reads_as_f32(rows.type)` has to be true.
/// `into` overlaps neither rows nor x.
void dot_rows(const Rows& rows, const float* x, std::int64_t x_stride, std::int64_t batch, float* into,
              std::int64_t into_stride) noexcept;

/// Vectors rounded to int8 with one scale for as many elements as a block of the weights has, 32 or 256.
///
/// The scale is the largest magnitude of the group divided by 127, so that an element moves by half a scale
/// at most, apart from the rounding of F32. A NaN or an infinity in a group makes its scale NaN, and so every
/// result that it is part of.
struct Int8Vectors {
  /// `vectors` of `length` elements, a multiple of the elements of a block. Throws std::bad_alloc.
  Int8Vectors(const ElementType& weights, const float* x, std::int64_t x_stride, std::int64_t vectors,
              std::int64_t length);

  /// Elements per scale.
  std::int64_t group;
  std::int64_t batch;
  std::int64_t columns;
  /// From -127 to 127.
  std::vector<std::int8_t> elements;
  std::vector<float> scales;
  /// The sum of each 16 elements.
  std::vector<std::int16_t> sums;
};

/// Q8_0, Q4_0, Q4_K, Q5_K and Q6_K.
[[nodiscard]] bool has_int8_kernel(const ElementType& type) noexcept;

/// The same as `dot_rows`, where `has_int8_kernel`. Sums within a scale are exact integers; the rest has a
/// fixed order, too, so that targets agree.
///
/// For the rounded vectors x', the error is at most k · eps · Σ(|scale · q| + |offset|) · |x'|
/// where elements are scale · q - offset; Q8_0 and Q4_0 have no offsets, that of Q6_K is 32 · scale. Rounding
/// the vectors adds at most Σ over groups of (scale / 2) · Σ|row[j]|.
void dot_rows_int8(const Rows& rows, const Int8Vectors& x, float* into, std::int64_t into_stride) noexcept;

}  // namespace ht::inline v1::compute
