// The left matrix must have as many columns as the right matrix has rows.
#include <htensor/compute/matmul.hpp>

using Left = ht::Tensor<ht::F32, ht::Shape<4, 8>>;
using Right = ht::Tensor<ht::F32, ht::Shape<5, 8>>;

auto product(const Left& left, const Right& right) {
#ifdef HT_FAIL
  return ht::matmul(left, right);  // expect: no matching function for call to .*matmul
                                   // expect: InnerExtentsMayMatch
                                   // expect: Shape<4, 8>
                                   // expect: Shape<5, 8>
#else
  return ht::matmul(left, right.transpose());
#endif
}
