#include "bench/element_access/task.hpp"

namespace ht::bench {
namespace {

template <class Element>
float sum(const Element* first, std::int64_t rows, std::int64_t columns) {
  float total = 0;
  for (const Element* at = first; at != first + rows * columns; ++at) total += static_cast<float>(*at);
  return total;
}

}  // namespace

float sum_by_pointer(const float* first, std::int64_t rows, std::int64_t columns) {
  return sum(first, rows, columns);
}
float sum_by_pointer(const BF16::Element* first, std::int64_t rows, std::int64_t columns) {
  return sum(first, rows, columns);
}

}  // namespace ht::bench
