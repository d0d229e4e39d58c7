// The benefits of the types on one page. The commented-out lines do not compile; build with
// -DHT_TYPED_LAYERS_FAIL=ON to see such an error.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdio>

#include "example_device.hpp"

namespace {

using D = example::DType;
using Dev = example::Device;

// The compiler knows which dtype holds all values of another: `cast` compiles for lossless conversions only,
// and lossy conversions need `cast_lossy`.
static_assert(ht::LosslessTo<ht::BF16, ht::F32> && ht::LosslessTo<ht::I8, ht::F16>);
static_assert(!ht::LosslessTo<ht::F16, ht::BF16> && !ht::LosslessTo<ht::I32, ht::F32>);
static_assert(std::same_as<ht::Common<ht::F16, ht::BF16>, ht::F32>);  // neither holds all values of the other
static_assert(std::same_as<ht::Common<ht::I32, ht::F32>, ht::F64>);

// The compiler also knows which dtypes a device stores and computes in.
static_assert(ht::Compatible<ht::OpenCl<ht::Gpu>, ht::F32> && !ht::Compatible<ht::OpenCl<ht::Gpu>, ht::F64>);
static_assert(ht::Computes<ht::OpenCl<ht::Cpu>, ht::slice::Nn, ht::F64>);
static_assert(!ht::Computes<ht::OpenCl<ht::Cpu>, ht::slice::Nn, ht::I32>);

#ifdef HT_TYPED_LAYERS_FAIL
using UnsupportedTensor = ht::Tensor<ht::F64, ht::Rank<2>, ht::OpenCl<ht::Gpu>>;
#endif

// One function for every dtype, shape and device. Static extents of the input give static extents of the
// result.
template <class X, class W>
auto layer(const X& x, const W& w) {
  return ht::linear(x, w);
}

ht::Result<void> show() {
  const auto x = HT_TRY(ht::Tensor<D, ht::Shape<2, 3>>::of({}, {1, 2, 3, 4, 5, 6}));
  auto w = HT_TRY(ht::Tensor<ht::BF16, ht::Shape<4, 3>>::zeros());
  for (auto&& element : w) element = ht::BF16::Element(0.5F);

  // Mixed dtypes need an explicit conversion:
  //   w + x;                       BF16 and D: no operator
  //   ht::cast<ht::BF16>(x);       would lose digits
  const auto wide = HT_TRY(ht::cast<D>(w));                 // exact, checked by the compiler
  const auto narrow = HT_TRY(ht::cast_lossy<ht::BF16>(x));  // rounds, as the name says

  // Weights keep their two bytes; the kernel widens them in registers.
  const auto on_device = HT_TRY(ht::to_device<Dev>(x));
  const auto weights = HT_TRY(ht::to_device<Dev>(w));
  const auto y = HT_TRY(layer(on_device, weights));
  static_assert(std::same_as<decltype(y), const ht::Tensor<D, ht::Shape<2, 4>, Dev>>);
  //   layer(on_device, weights.transpose());    3 columns against 4: no matching function
  //   on_device + x;                            two devices, unless Dev is the host

  const auto back = HT_TRY(ht::to_host(y));
  const auto same = HT_TRY(layer(x, wide));  // D weights on the host
  double gap = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 4; ++j)
      gap = std::max(gap, std::abs(static_cast<double>(back(i, j)) - static_cast<double>(same(i, j))));
  }
  std::printf("%.*s on %.*s: y(1, 3) = %g, gap to the host %g, %zu bytes of x as BF16\n",
              static_cast<int>(D::name.size()), D::name.data(), static_cast<int>(Dev::name.size()),
              Dev::name.data(), static_cast<double>(back(1, 3)), gap, HT_TRY(narrow.bytes()).size());
  if (gap != 0)
    return ht::fail(ht::ErrorCode::internal, "small_numbers_are_exact", "the device and the host differ");
  if (back(1, 3) != 7.5)
    return ht::fail(ht::ErrorCode::internal, "small_numbers_are_exact", "y(1, 3) is not 7.5");
  return {};
}

}  // namespace

int main() {
  const auto done = show();
  if (!done) std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return done ? 0 : 1;
}
