// Operations of neural networks compute in F32 and F64; integers need an explicit cast.
#include <htensor/compute/nn.hpp>

using Ints = ht::Tensor<ht::I32, ht::Rank<2>>;

auto probabilities(const Ints& scores) {
#ifdef HT_FAIL
  return ht::softmax(scores);  // expect: no matching function
                               // expect: Computes
                               // expect: Int<32>
#else
  return ht::softmax(*ht::cast<ht::F64>(scores));
#endif
}
