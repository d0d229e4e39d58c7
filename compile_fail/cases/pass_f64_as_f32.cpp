// Passing a tensor to a function never narrows it.
#include <htensor/tensor/tensor.hpp>

void take(const ht::Tensor<ht::F32, ht::Rank<2>>& tensor);

void give(const ht::Tensor<ht::F64, ht::Rank<2>>& doubles, const ht::Tensor<ht::F32, ht::Rank<2>>& floats) {
#ifdef HT_FAIL
  static_cast<void>(floats);
  take(doubles);  // expect: invalid initialization of reference|no known conversion
                  // expect: Float<32>
                  // expect: Float<64>
#else
  static_cast<void>(doubles);
  take(floats);
#endif
}
