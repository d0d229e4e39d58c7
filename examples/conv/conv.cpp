// Finds the edges of a disc by convolution with two Sobel filters, on the device and in the dtype of the
// build.
#include <cmath>
#include <cstdio>

#include "example_device.hpp"
#include "layers/layers.hpp"

namespace {

using D = example::DType;
using Dev = example::Device;
using Number = D::Element;
constexpr std::int64_t size = 64;
constexpr double radius = 20;

double distance_of(std::int64_t row, std::int64_t column) {
  return std::hypot(static_cast<double>(row) - size / 2.0, static_cast<double>(column) - size / 2.0);
}

ht::Result<ht::Tensor<D, ht::Rank<4>>> find_edges() {
  const auto image = HT_TRY(ht::Tensor<D, ht::Rank<4>>::zeros(ht::Rank<4>(1, 1, size, size)));
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < size; ++j)
      image(0, 0, i, j) = distance_of(i, j) < radius ? Number(1) : Number(0);
  }
  // One byte per element is enough for small integers.
  using Filters = ht::Tensor<const ht::I8, ht::Rank<4>>;
  const Filters filters = HT_TRY(ht::Tensor<ht::I8, ht::Rank<4>>::of(
      ht::Rank<4>(2, 1, 3, 3), {-1, 0, 1, -2, 0, 2, -1, 0, 1, -1, -2, -1, 0, 0, 0, 1, 2, 1}));
  const auto zeros = HT_TRY(ht::Tensor<D, ht::Rank<1>>::zeros(ht::Rank<1>(2)));
  const example::Conv2d<D, Dev, ht::I8> sobel(HT_TRY(ht::to_device<Dev>(filters)),
                                              HT_TRY(ht::to_device<Dev>(zeros)), {.padding = {1, 1}});
  const auto slopes = HT_TRY(sobel(HT_TRY(ht::to_device<Dev>(image))));
  const auto squares = HT_TRY(slopes * slopes);
  return ht::to_host(squares);
}

ht::Result<void> run() {
  const auto squares = HT_TRY(find_edges());
  std::int64_t found = 0;
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < size; ++j) {
      const bool is_edge = squares(0, 0, i, j) + squares(0, 1, i, j) > Number(0);
      found += is_edge ? 1 : 0;
      // A 3 × 3 filter reaches at most √2 beyond its center.
      if (is_edge && std::abs(distance_of(i, j) - radius) > 2) ++wrong;
    }
  }
  std::printf("%.*s on %.*s: %lld pixels of edges, %lld elsewhere\n", static_cast<int>(D::name.size()),
              D::name.data(), static_cast<int>(Dev::name.size()), Dev::name.data(),
              static_cast<long long>(found), static_cast<long long>(wrong));
  if (static_cast<double>(found) < 6 * radius || wrong != 0)
    return ht::fail(ht::ErrorCode::internal, "edges_are_on_the_circle",
                    "edges are not at the border of the disc");
  return {};
}

}  // namespace

int main() {
  const auto done = run();
  if (!done) std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return done ? 0 : 1;
}
