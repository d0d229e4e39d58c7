// An upcast never narrows.
#include <htensor/values/cast.hpp>

auto converted(const ht::Tensor<ht::F64, ht::Rank<2>>& wide, const ht::Tensor<ht::F32, ht::Rank<2>>& narrow) {
#ifdef HT_FAIL
  static_cast<void>(narrow);
  return ht::upcast<ht::F32>(wide);  // expect: no matching function for call to .upcast
                                     // expect: UpcastableTo
                                     // expect: LosslessTo|every_value_of_first_in_second
                                     // expect: Float<64>
#else
  static_cast<void>(wide);
  return ht::upcast<ht::F64>(narrow);
#endif
}
