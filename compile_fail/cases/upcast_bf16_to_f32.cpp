// BF16 and F32 are in different families, so the conversion needs a cast.
#include <htensor/values/cast.hpp>

auto widened(const ht::Tensor<ht::BF16, ht::Rank<2>>& tensor) {
#ifdef HT_FAIL
  return ht::upcast<ht::F32>(tensor);  // expect: no matching function for call to .upcast
                                       // expect: UpcastableTo|SameFamily
                                       // expect: BFloat<16>
#else
  return ht::cast<ht::F32>(tensor);
#endif
}
