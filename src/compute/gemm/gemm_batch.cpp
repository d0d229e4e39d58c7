#include <htensor/compute/matmul.hpp>

#include <algorithm>

#include "base/format_text.hpp"
#include "compute/gemm/gemm.hpp"

namespace ht::inline v1::detail {
namespace {

// Returns the matrix of the last two dimensions. A vector is a row on the left side and a column on the
// right.
template <class T>
compute::Matrix<const T> last_matrix(const HostView<T>& elements, bool is_left) noexcept {
  const auto& [data, extents, strides] = elements;
  const std::size_t rank = extents.size();
  if (rank > 1) return {data, extents[rank - 2], extents[rank - 1], strides[rank - 2], strides[rank - 1]};
  if (is_left) return {data, 1, extents[0], 0, strides[0]};
  return {data, extents[0], 1, strides[0], 0};
}

template <class T>
Result<void> multiply(const HostView<T>& a, const HostView<T>& b, T* into, const ComputeOptions& options) {
  const auto is_empty = [](layout::Extents extents) {
    return std::ranges::find(extents, 0) != extents.end();
  };
  if (is_empty(a.extents) || is_empty(b.extents)) return {};
  const std::size_t batch_rank = std::max<std::size_t>(a.extents.size(), 2) - 2;
  auto left = last_matrix(a, true);
  auto right = last_matrix(b, false);
  compute::Matrix<T> product{into, left.rows, right.columns, right.columns, 1};
  std::array<std::int64_t, max_rank> index{};
  while (true) {
    HT_TRY(compute::gemm(left, right, product, {.workers = options.workers}));
    product.data += product.rows * product.columns;
    // Advance the batch index, last dimension first.
    std::size_t d = batch_rank;
    for (; d > 0; --d) {
      const bool is_last = ++index[d - 1] == a.extents[d - 1];
      const std::int64_t steps = is_last ? 1 - a.extents[d - 1] : 1;
      left.data += steps * a.strides[d - 1];
      right.data += steps * b.strides[d - 1];
      if (!is_last) break;
      index[d - 1] = 0;
    }
    if (d == 0) return {};
  }
}

}  // namespace

Result<void> check_product(layout::Extents a, layout::Extents b) {
  const std::int64_t columns = a.back();
  const std::int64_t rows = b.size() > 1 ? b[b.size() - 2] : b[0];
  if (columns != rows) {
    return fail(Error(ErrorCode::shape_mismatch, "inner_extents_are_equal",
                      format_text("product of shapes {} and {}: {} columns but {} rows", layout::to_text(a),
                                  layout::to_text(b), columns, rows))
                    .with_hint("transpose an operand or swap the operands"));
  }
  const std::size_t batch_rank = std::max<std::size_t>(a.size(), 2) - 2;
  if (!std::ranges::equal(a.first(batch_rank), b.first(std::min(batch_rank, b.size())))) {
    return fail(Error(ErrorCode::shape_mismatch, "batch_extents_are_equal",
                      format_text("product of shapes {} and {}: batches {} and {} differ", layout::to_text(a),
                                  layout::to_text(b), layout::to_text(a.first(batch_rank)),
                                  layout::to_text(b.first(batch_rank))))
                    .with_hint("repeat or select matrices so that both batches have the same shape"));
  }
  return {};
}

Result<void> multiply_matrices(const HostView<float>& a, const HostView<float>& b, float* into,
                               const ComputeOptions& options) {
  return multiply(a, b, into, options);
}
Result<void> multiply_matrices(const HostView<double>& a, const HostView<double>& b, double* into,
                               const ComputeOptions& options) {
  return multiply(a, b, into, options);
}

}  // namespace ht::inline v1::detail
