// The FNUZ variant has a similar name, but no -0 and a smaller range.
#include <htensor/values/cast.hpp>

auto seen(const ht::Tensor<ht::F8_E4M3, ht::Rank<2>>& tensor) {
#ifdef HT_FAIL
  return ht::as<ht::F8_E4M3FNUZ>(tensor);  // expect: no matching function for call to .as
                                           // expect: LosslessTo
                                           // expect: MiniFloat<4, 3
#else
  return ht::as<ht::F16>(tensor);
#endif
}
