// A double has 53 significant bits and an I64 has 63.
#include <htensor/values/cast.hpp>

auto converted(const ht::Tensor<ht::I64, ht::Rank<2>>& wide, const ht::Tensor<ht::I32, ht::Rank<2>>& narrow) {
#ifdef HT_FAIL
  static_cast<void>(narrow);
  return ht::cast<ht::F64>(wide);  // expect: no matching function for call to .cast
                                   // expect: LosslessTo
                                   // expect: Int<64>
                                   // expect: Float<64>
#else
  static_cast<void>(wide);
  return ht::cast<ht::F64>(narrow);
#endif
}
