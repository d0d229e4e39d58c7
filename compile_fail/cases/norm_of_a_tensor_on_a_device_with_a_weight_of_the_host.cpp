// All operands must be on one device: the caller copies a weight of the host to the device first.
#include <htensor/compute/nn.hpp>

using Card = ht::OpenCl<ht::Gpu>;
using Rows = ht::Tensor<ht::F32, ht::Rank<2>, Card>;
using Weight = ht::Tensor<ht::F32, ht::Rank<1>>;

ht::Result<Rows> norm(const Rows& x, const Weight& weight) {
#ifdef HT_FAIL
  return ht::rms_norm(x, weight, 1e-5);  // expect: no matching function
                                         // expect: WeightOf
                                         // expect: Host
#else
  const auto on_device = HT_TRY(ht::to_device<Card>(weight));
  return ht::rms_norm(x, on_device, 1e-5);
#endif
}
