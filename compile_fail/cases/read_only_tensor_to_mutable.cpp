// A read-only tensor does not convert to a mutable one; to write, copy it.
#include <htensor/tensor/tensor.hpp>

ht::Result<ht::Tensor<ht::F32, ht::Rank<2>>> mine(const ht::Tensor<const ht::F32, ht::Rank<2>>& seen) {
#ifdef HT_FAIL
  const ht::Tensor<ht::F32, ht::Rank<2>> tensor = seen;  // expect: (error|note): .*Tensor<const
  return tensor;
#else
  const ht::Tensor<const ht::F32, ht::Rank<2>> tensor = seen;
  return tensor.copy();
#endif
}
