// Tensors of a mapped file are read-only.
#include <htensor/tensor/tensor.hpp>

void write(const ht::Tensor<const ht::F32, ht::Rank<2>>& seen, const ht::Tensor<ht::F32, ht::Rank<2>>& own) {
#ifdef HT_FAIL
  static_cast<void>(own);
  seen(0, 0) = 1.0F;  // expect: assignment of read-only location|returns a const value
#else
  static_cast<void>(seen);
  own(0, 0) = 1.0F;
#endif
}
