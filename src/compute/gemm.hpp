// Products of matrices in memory, for the operations of this folder.
//
// BLAS computes where it can be loaded, else a kernel of the library. BLAS takes matrices of which one stride
// is 1 and whose extents fit an int: other operands are copied panel by panel, larger products are split.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/base/workers.hpp>

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
  /// For packing, and for all of the work where BLAS cannot be loaded. Null is the pool of the library.
  Workers* workers = nullptr;
  /// False: the kernel of the library computes.
  bool uses_blas = true;
  /// The largest extent that BLAS is called with; its extents are ints.
  std::int64_t max_extent = std::int64_t{1} << 30;
  /// Elements of an operand that are copied at once.
  std::int64_t panel_elements = std::int64_t{1} << 20;
};

/// c = a·b, where a is m × k, b is k × n and c is m × n, with a column stride of 1 and a row stride of at
/// least n. c overlaps neither operand. c = a·bᵀ is `gemm(a, b.transposed(), c)`. The caller guards mapped
/// operands. `out_of_memory` if a panel cannot be allocated.
[[nodiscard]] Result<void> gemm(const Matrix<const float>& a, const Matrix<const float>& b,
                                const Matrix<float>& c, const GemmOptions& options = {});
[[nodiscard]] Result<void> gemm(const Matrix<const double>& a, const Matrix<const double>& b,
                                const Matrix<double>& c, const GemmOptions& options = {});

}  // namespace ht::inline v1::compute
