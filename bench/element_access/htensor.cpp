#include "bench/element_access/task.hpp"

namespace ht::bench {
namespace {

template <class D>
float sum(const Tensor<const D, Rank<2>>& matrix) {
  float total = 0;
  const auto rows = matrix.extent(0);
  const auto columns = matrix.extent(1);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) total += static_cast<float>(matrix(i, j));
  }
  return total;
}

}  // namespace

float sum_by_operator(const Tensor<const F32, Rank<2>>& matrix) { return sum(matrix); }
float sum_by_operator(const Tensor<const BF16, Rank<2>>& matrix) { return sum(matrix); }

}  // namespace ht::bench
