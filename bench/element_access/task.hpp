// The task: sum all elements of a matrix: through operator(), and through a raw pointer, which is the limit.
#pragma once

#include <cstdint>
#include <htensor/htensor.hpp>

namespace ht::bench {

float sum_by_operator(const Tensor<const F32, Rank<2>>& matrix);
float sum_by_operator(const Tensor<const BF16, Rank<2>>& matrix);

float sum_by_pointer(const float* first, std::int64_t rows, std::int64_t columns);
float sum_by_pointer(const BF16::Element* first, std::int64_t rows, std::int64_t columns);

}  // namespace ht::bench
