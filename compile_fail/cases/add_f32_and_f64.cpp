// Widening is explicit, even if it is lossless.
#include <htensor/compute/elementwise.hpp>
#include <htensor/values/cast.hpp>

using Floats = ht::Tensor<ht::F32, ht::Rank<2>>;
using Doubles = ht::Tensor<ht::F64, ht::Rank<2>>;

ht::Result<Doubles> sum(const Floats& a, const Doubles& b) {
#ifdef HT_FAIL
  return a + b;  // expect: no match for .operator\+.|invalid operands to binary expression
                 // expect: SameDType
                 // expect: Float<32>
                 // expect: Float<64>
#else
  return HT_TRY(ht::upcast<ht::F64>(a)) + b;
#endif
}
