// Integers have no division: division by zero and rounding would need a definition.
#include <htensor/compute/elementwise.hpp>

using Ints = ht::Tensor<ht::I32, ht::Rank<2>>;
using Floats = ht::Tensor<ht::F32, ht::Rank<2>>;

auto quotient(const Ints& ints, const Floats& floats) {
#ifdef HT_FAIL
  static_cast<void>(floats);
  return ints / ints;  // expect: no match for .operator/.|invalid operands to binary expression
                       // expect: IsFloating
                       // expect: Int<32>
#else
  static_cast<void>(ints);
  return floats / floats;
#endif
}
