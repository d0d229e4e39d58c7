// A conversion of all elements allocates memory and can fail, so it is never implicit.
#include <htensor/values/cast.hpp>

void take(const ht::Tensor<ht::F64, ht::Rank<2>>& tensor);

ht::Result<void> give(const ht::Tensor<ht::F32, ht::Rank<2>>& floats) {
#ifdef HT_FAIL
  take(floats);  // expect: invalid initialization of reference|no known conversion
                 // expect: Float<32>
                 // expect: Float<64>
#else
  take(HT_TRY(ht::upcast<ht::F64>(floats)));
#endif
  return {};
}
