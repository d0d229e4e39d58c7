// Products of matrices in memory, used by `matmul` and `linear`.
//
// Uses BLAS, or the library's own kernel if BLAS cannot be loaded or the row stride of the result exceeds an
// int. BLAS requires one stride of 1 and extents that fit an int. Other operands are copied panel by panel,
// and larger products are split.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>

namespace ht::inline v1::compute {

/// Elements (i, j) at data[i * row_stride + j * column_stride]; strides may be zero or negative.
template <class T>
struct Matrix {
  T* data;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t column_stride;

  [[nodiscard]] Matrix transposed() const noexcept {
    return {data, columns, rows, column_stride, row_stride};
  }
  [[nodiscard]] Matrix block(std::int64_t row, std::int64_t column, std::int64_t block_rows,
                             std::int64_t block_columns) const noexcept {
    return {data + row * row_stride + column * column_stride, block_rows, block_columns, row_stride,
            column_stride};
  }
};

struct GemmOptions {
  /// c += a·b instead of c = a·b.
  bool adds = false;
  /// For packing, and for all work of the library's own kernel. Null selects the library's pool.
  Workers* workers = nullptr;
  /// False selects the library's own kernel.
  bool uses_blas = true;
  /// The largest extent that is passed to BLAS, whose extents are ints.
  std::int64_t max_extent = std::int64_t{1} << 30;
  /// The maximum number of elements of an operand that are copied at once.
  std::int64_t panel_elements = std::int64_t{1} << 20;
};

/// c = a·b, where a is m × k, b is k × n and c is m × n. The column stride of c is 1 and its row stride is at
/// least n. c must not overlap an operand. c = a·bᵀ is `gemm(a, b.transposed(), c)`. Operands in mapped
/// memory require a guarded section of the caller (htensor/base/fault.hpp). `out_of_memory` if a panel cannot
/// be allocated.
[[nodiscard]] Result<void> gemm(const Matrix<const float>& a, const Matrix<const float>& b,
                                const Matrix<float>& c, const GemmOptions& options = {});
[[nodiscard]] Result<void> gemm(const Matrix<const double>& a, const Matrix<const double>& b,
                                const Matrix<double>& c, const GemmOptions& options = {});

}  // namespace ht::inline v1::compute
