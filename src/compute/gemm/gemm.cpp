#include "compute/gemm/gemm.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "base/format_text.hpp"
#include "base/workers.hpp"
#include "compute/gemm/gemm_blas.hpp"
#include "compute/gemm/gemm_kernel.hpp"

namespace ht::inline v1::compute {
namespace {

// A matrix as BLAS reads it: rows of the matrix or of its transpose, `leading` elements apart.
struct BlasLayout {
  BlasTranspose transpose;
  int leading;
};

// Returns nullopt if BLAS cannot read the matrix in place. Strides of dimensions of extent 1 are not used.
template <class T>
std::optional<BlasLayout> blas_layout(const Matrix<const T>& matrix) noexcept {
  if (matrix.column_stride == 1 || matrix.columns == 1) {
    const std::int64_t leading = matrix.rows == 1 ? matrix.columns : matrix.row_stride;
    if (leading >= matrix.columns && leading <= INT_MAX)
      return BlasLayout{BlasTranspose::no, static_cast<int>(leading)};
  }
  if (matrix.row_stride == 1 || matrix.rows == 1) {
    const std::int64_t leading = matrix.columns == 1 ? matrix.rows : matrix.column_stride;
    if (leading >= matrix.rows && leading <= INT_MAX)
      return BlasLayout{BlasTranspose::yes, static_cast<int>(leading)};
  }
  return std::nullopt;
}

int to_int(std::int64_t extent) noexcept { return static_cast<int>(extent); }

// y = matrix · x; y += matrix · x if `adds`.
template <class T>
void multiply_vector(const Matrix<const T>& matrix, const T* x, std::int64_t step_x, T* y,
                     std::int64_t step_y, bool adds) noexcept {
  const auto layout = *blas_layout(matrix);
  const bool is_transposed = layout.transpose == BlasTranspose::yes;
  // Some BLAS versions multiply the old y by zero, which keeps a NaN.
  for (std::int64_t i = 0; !adds && i < matrix.rows; ++i) y[i * step_y] = 0;
  blas().functions(T{}).gemv(BlasOrder::row_major, layout.transpose,
                             to_int(is_transposed ? matrix.columns : matrix.rows),
                             to_int(is_transposed ? matrix.rows : matrix.columns), 1, matrix.data,
                             layout.leading, x, to_int(step_x), 1, y, to_int(step_y));
}

// Multiplies operands that BLAS reads in place. Vectors use gemv, because gemm would copy them.
template <class T>
void multiply_in_place(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c,
                       bool adds) noexcept {
  if (c.columns == 1) {
    multiply_vector(a, b.data, b.rows == 1 ? 1 : b.row_stride, c.data, c.rows == 1 ? 1 : c.row_stride, adds);
    return;
  }
  if (c.rows == 1) {
    multiply_vector(b.transposed(), a.data, a.columns == 1 ? 1 : a.column_stride, c.data, std::int64_t{1},
                    adds);
    return;
  }
  const auto layout_a = *blas_layout(a);
  const auto layout_b = *blas_layout(b);
  blas().functions(T{}).gemm(BlasOrder::row_major, layout_a.transpose, layout_b.transpose, to_int(c.rows),
                             to_int(c.columns), to_int(a.columns), 1, a.data, layout_a.leading, b.data,
                             layout_b.leading, adds ? 1 : 0, c.data, to_int(c.row_stride));
}

// An operand that is passed to BLAS block by block, packed into a panel if BLAS cannot read it in place.
template <class T>
class Operand {
 public:
  Operand(const Matrix<const T>& matrix, Workers* workers) noexcept
      : matrix_(matrix), needs_packing_(!blas_layout(matrix)), workers_(workers) {}

  [[nodiscard]] bool needs_packing() const noexcept { return needs_packing_; }
  [[nodiscard]] std::int64_t elements() const noexcept { return matrix_.rows * matrix_.columns; }

  /// Returns a block that is valid until the next call. `max_elements` is the same for every call.
  Result<Matrix<const T>> block(std::int64_t row, std::int64_t column, std::int64_t rows,
                                std::int64_t columns, std::int64_t max_elements) {
    const auto part = matrix_.block(row, column, rows, columns);
    if (!needs_packing_) return part;
    if (!panel_) panel_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(max_elements));
    // Reads elements in address order where the strides allow it.
    const bool by_rows = std::abs(part.column_stride) <= std::abs(part.row_stride);
    HT_TRY(pack(by_rows ? part : part.transposed()));
    if (by_rows) return Matrix<const T>{panel_.get(), rows, columns, columns, 1};
    return Matrix<const T>{panel_.get(), rows, columns, 1, rows};
  }

 private:
  Result<void> pack(const Matrix<const T>& part) {
    constexpr std::int64_t job_elements = std::int64_t{1} << 15;
    const std::int64_t job_rows = std::max<std::int64_t>(job_elements / part.columns, 1);
    Jobs jobs;
    jobs.count = static_cast<std::size_t>((part.rows + job_rows - 1) / job_rows);
    jobs.workers = workers_;
    jobs.run = [&](std::size_t job, std::size_t) -> Result<void> {
      const std::int64_t first = static_cast<std::int64_t>(job) * job_rows;
      const std::int64_t last = std::min(first + job_rows, part.rows);
      for (std::int64_t i = first; i < last; ++i) {
        const T* const from = part.data + i * part.row_stride;
        T* const into = panel_.get() + i * part.columns;
        for (std::int64_t j = 0; j < part.columns; ++j) into[j] = from[j * part.column_stride];
      }
      return {};
    };
    return run_all(jobs);
  }

  Matrix<const T> matrix_;
  bool needs_packing_;
  Workers* workers_;
  std::unique_ptr<T[]> panel_;
};

template <class T>
Result<void> multiply_by_blas(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c,
                              const GemmOptions& options) {
  // After a fork, the first call of OpenBLAS restarts the threads of OpenBLAS, which inherit the signal mask.
  const UnblockedSigbus unblocked;
  Operand<T> left(a, options.workers);
  Operand<T> right(b, options.workers);
  const std::int64_t panel = options.panel_elements;
  const bool both_fit_panels = (!left.needs_packing() || left.elements() <= panel) &&
                               (!right.needs_packing() || right.elements() <= panel);
  // Limits the depth so that a panel has at least 256 rows.
  const std::int64_t max_depth =
      both_fit_panels ? options.max_extent : std::max<std::int64_t>(panel / 256, 1);
  const std::int64_t depth = std::min({a.columns, max_depth, options.max_extent});
  const auto block_extent = [&](const Operand<T>& operand, std::int64_t extent) {
    const std::int64_t max =
        operand.needs_packing() ? std::max<std::int64_t>(panel / depth, 1) : options.max_extent;
    return std::min({extent, max, options.max_extent});
  };
  const std::int64_t rows = block_extent(left, c.rows);
  const std::int64_t columns = block_extent(right, c.columns);
  for (std::int64_t k = 0; k < a.columns; k += depth) {
    const std::int64_t count = std::min(depth, a.columns - k);
    for (std::int64_t j = 0; j < c.columns; j += columns) {
      const std::int64_t width = std::min(columns, c.columns - j);
      const auto b_block = HT_TRY(right.block(k, j, count, width, depth * columns));
      for (std::int64_t i = 0; i < c.rows; i += rows) {
        const std::int64_t height = std::min(rows, c.rows - i);
        const auto a_block = HT_TRY(left.block(i, k, height, count, rows * depth));
        multiply_in_place(a_block, b_block, c.block(i, j, height, width), options.adds || k > 0);
      }
    }
  }
  return {};
}

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }
};

std::int64_t round_up(std::int64_t number, std::int64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

// Multiplies with the library's own kernel. Jobs are blocks of c, so the result does not depend on the number
// of threads.
template <class T>
Result<void> multiply_by_kernel(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c,
                                const GemmOptions& options) {
  const std::int64_t blocks_down = (c.rows + block_rows - 1) / block_rows;
  const std::int64_t blocks_across = (c.columns + block_columns<T> - 1) / block_columns<T>;
  const std::int64_t depth = std::min(a.columns, packed_depth);
  const std::int64_t elements_a = depth * round_up(std::min(c.rows, block_rows), max_strip_lines);
  const std::int64_t elements_b = depth * round_up(std::min(c.columns, block_columns<T>), max_strip_lines);
  const auto buffer_bytes = static_cast<std::size_t>(round_up(elements_a + elements_b, 64)) * sizeof(T);

  Jobs jobs;
  jobs.count = static_cast<std::size_t>(blocks_down * blocks_across);
  jobs.workers = options.workers;
  std::vector<std::unique_ptr<void, Free>> buffers(workers_for(jobs));
  jobs.run = [&](std::size_t job, std::size_t worker) -> Result<void> {
    auto& buffer = buffers[worker];
    if (!buffer) buffer.reset(std::aligned_alloc(64, buffer_bytes));
    if (!buffer) return fail(out_of_memory(buffer_bytes));
    // Jobs go down a column of blocks first, so that concurrent jobs share columns of b.
    const std::int64_t row = static_cast<std::int64_t>(job) % blocks_down * block_rows;
    const std::int64_t column = static_cast<std::int64_t>(job) / blocks_down * block_columns<T>;
    T* const strips = static_cast<T*>(buffer.get());
    multiply_block(KernelBlock<T>{.a = a.data + row * a.row_stride,
                                  .row_stride_a = a.row_stride,
                                  .column_stride_a = a.column_stride,
                                  .b = b.data + column * b.column_stride,
                                  .row_stride_b = b.row_stride,
                                  .column_stride_b = b.column_stride,
                                  .c = c.data + row * c.row_stride + column,
                                  .row_stride_c = c.row_stride,
                                  .rows = std::min(block_rows, c.rows - row),
                                  .columns = std::min(block_columns<T>, c.columns - column),
                                  .depth = a.columns,
                                  .adds = options.adds,
                                  .packed_a = strips,
                                  .packed_b = strips + elements_a});
    return {};
  };
  return run_all(jobs);
}

template <class T>
Result<void> multiply(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c,
                      const GemmOptions& options) {
  if (c.rows == 0 || c.columns == 0) return {};
  if (a.columns == 0) {
    for (std::int64_t i = 0; !options.adds && i < c.rows; ++i)
      std::fill_n(c.data + i * c.row_stride, c.columns, T{0});
    return {};
  }
  return without_bad_alloc([&] {
    const bool by_blas = options.uses_blas && blas().is_loaded() && c.row_stride <= INT_MAX;
    return by_blas ? multiply_by_blas(a, b, c, options) : multiply_by_kernel(a, b, c, options);
  });
}

}  // namespace

Result<void> gemm(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c,
                  const GemmOptions& options) {
  return multiply(a, b, c, options);
}
Result<void> gemm(const Matrix<const double>& a, const Matrix<const double>& b, const Matrix<double>& c,
                  const GemmOptions& options) {
  return multiply(a, b, c, options);
}

}  // namespace ht::inline v1::compute
