// Operands are never converted implicitly: a sum has one dtype.
#include <htensor/compute/elementwise.hpp>

using Floats = ht::Tensor<ht::F32, ht::Rank<2>>;
using Ints = ht::Tensor<ht::I32, ht::Rank<2>>;

auto sum(const Floats& a, const Ints& b, const Floats& c) {
#ifdef HT_FAIL
  static_cast<void>(c);
  return a + b;  // expect: no match for .operator\+.|invalid operands to binary expression
                 // expect: SameDType
                 // expect: Float<32>
                 // expect: Int<32>
#else
  static_cast<void>(b);
  return a + c;
#endif
}
