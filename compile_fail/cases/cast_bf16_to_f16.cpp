// BF16 and F16 both have 16 bits, but neither represents all values of the other.
#include <htensor/values/cast.hpp>

auto converted(const ht::Tensor<ht::BF16, ht::Rank<2>>& tensor) {
#ifdef HT_FAIL
  return ht::cast<ht::F16>(tensor);  // expect: no matching function for call to .cast
                                     // expect: LosslessTo
                                     // expect: BFloat<16>
                                     // expect: Float<16>
#else
  return ht::cast<ht::F32>(tensor);
#endif
}
