// A device that stores a dtype but does not compute with it has no operators for it.
#include <htensor/compute/elementwise.hpp>

#ifdef HT_FAIL
using DType = ht::C64;
#else
using DType = ht::BF16;
#endif
using Numbers = ht::Tensor<DType, ht::Rank<1>, ht::OpenCl<ht::Gpu>>;

ht::Result<Numbers> sum(const Numbers& a) {
  return a + a;  // expect: no match for .operator\+.|invalid operands to binary expression
                 // expect: Computes
                 // expect: slice::Core
}
