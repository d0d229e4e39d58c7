// Products of integers would overflow: the caller chooses a floating-point dtype.
#include <htensor/compute/matmul.hpp>
#include <htensor/values/cast.hpp>

using Ints = ht::Tensor<ht::I32, ht::Rank<2>>;

ht::Result<ht::Tensor<ht::F64, ht::Rank<2>>> product(const Ints& a, const Ints& b) {
#ifdef HT_FAIL
  return ht::matmul(a, b);  // expect: no matching function for call to .*matmul
                            // expect: Computes
                            // expect: Int<32>
#else
  const auto left = HT_TRY(ht::cast<ht::F64>(a));
  const auto right = HT_TRY(ht::cast<ht::F64>(b));
  return ht::matmul(left, right);
#endif
}
