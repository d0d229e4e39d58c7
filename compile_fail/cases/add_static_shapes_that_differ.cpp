// Static extents are compared at compile time.
#include <htensor/compute/elementwise.hpp>

using Wide = ht::Tensor<ht::F32, ht::Shape<4, 8>>;
using Tall = ht::Tensor<ht::F32, ht::Shape<8, 4>>;

auto sum(const Wide& wide, const Tall& tall) {
#ifdef HT_FAIL
  return wide + tall;  // expect: no match for .operator\+.|invalid operands to binary expression
                       // expect: ShapesMayMatch
                       // expect: Shape<4, 8>
                       // expect: Shape<8, 4>
#else
  return wide + tall.transpose();
#endif
}
