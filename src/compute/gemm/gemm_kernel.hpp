// The library's own kernel for products of matrices, for calls without BLAS: computes one block of the
// result.
#pragma once

#include <cstdint>

namespace ht::inline v1::compute {

// A block of c has at most `block_rows` × `block_columns` elements. Its depth is processed in parts of
// `packed_depth`, so that the packed parts of a (128 KiB in F32) and b (256 KiB) fit the caches.
inline constexpr std::int64_t packed_depth = 256;
inline constexpr std::int64_t block_rows = 128;
template <class T>
inline constexpr std::int64_t block_columns = 1024 / static_cast<std::int64_t>(sizeof(T));
/// The maximum number of lines of a packed strip: rows of a or columns of b. The last strip is padded to the
/// same number of lines as the others.
inline constexpr std::int64_t max_strip_lines = 32;

/// At most `block_rows` rows and `block_columns` columns of c = a·b, of any depth and any strides.
template <class T>
struct KernelBlock {
  const T* a;
  std::int64_t row_stride_a, column_stride_a;
  const T* b;
  std::int64_t row_stride_b, column_stride_b;
  T* c;
  std::int64_t row_stride_c;
  std::int64_t rows, columns, depth;
  /// c += a·b
  bool adds;
  /// Buffers for strips of a and b: min(`depth`, `packed_depth`) times the padded rows or columns.
  T* packed_a;
  T* packed_b;
};

/// Computes one block of c. The order of additions depends only on the depth and the processor.
void multiply_block(const KernelBlock<float>& block) noexcept;
void multiply_block(const KernelBlock<double>& block) noexcept;

}  // namespace ht::inline v1::compute
