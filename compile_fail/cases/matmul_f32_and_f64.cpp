// A product has one dtype: widening is explicit.
#include <htensor/compute/matmul.hpp>
#include <htensor/values/cast.hpp>

using Floats = ht::Tensor<ht::F32, ht::Rank<2>>;
using Doubles = ht::Tensor<ht::F64, ht::Rank<2>>;

ht::Result<Doubles> product(const Floats& a, const Doubles& b) {
#ifdef HT_FAIL
  return ht::matmul(a, b);  // expect: no matching function for call to .*matmul
                            // expect: SameDType
                            // expect: Float<32>
                            // expect: Float<64>
#else
  return ht::matmul(HT_TRY(ht::upcast<ht::F64>(a)), b);
#endif
}
