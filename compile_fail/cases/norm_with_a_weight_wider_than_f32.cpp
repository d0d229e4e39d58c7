// A weight is read in the dtype of the input, which must represent all values of the weight.
#include <htensor/compute/nn.hpp>

using Rows = ht::Tensor<ht::F32, ht::Rank<2>>;
using Doubles = ht::Tensor<ht::F64, ht::Rank<1>>;

auto normed(const Rows& x, const Doubles& weight) {
#ifdef HT_FAIL
  return ht::rms_norm(x, weight, 1e-5);  // expect: no matching function
                                         // expect: WeightOf
                                         // expect: Float<64>
#else
  return ht::rms_norm(x, *ht::cast_lossy<ht::F32>(weight), 1e-5);
#endif
}
