// Tools for tests of operations on OpenCL devices: error bounds.
#pragma once

#include <cmath>
#include <htensor/values/cast.hpp>
#include <limits>

#include "device/opencl/opencl_test.hpp"

namespace ht::tests {

/// ε in the bounds of htensor/device/transfer.hpp: 2^-23 or 2^-52.
template <class D>
constexpr double epsilon_of = std::numeric_limits<typename D::Element>::epsilon();

/// Whether each element is within factor · ε · scale of the exact one. The reference is the host's result in
/// F64. For F64 the bound is doubled, because the reference has an error of at most the same size.
template <class D, class S>
[[nodiscard]] ::testing::AssertionResult is_near(const Tensor<D, S>& found, const Tensor<F64, S>& exact,
                                                 const Tensor<F64, S>& scales, double factor) {
  if (!(found.shape() == exact.shape())) return ::testing::AssertionFailure() << "shapes differ";
  auto expected = exact.begin();
  auto scale = scales.begin();
  for (const auto& element : found) {
    const double bound = factor * *scale * epsilon_of<D> * (D::bits == 64 ? 2 : 1);
    const double error = std::abs(static_cast<double>(element) - *expected);
    if (!(error <= bound)) {
      return ::testing::AssertionFailure()
             << static_cast<double>(element) << " is not within " << bound << " of " << *expected;
    }
    ++expected;
    ++scale;
  }
  return ::testing::AssertionSuccess();
}

template <class D, class S>
void expect_near(const Tensor<D, S>& found, const Tensor<F64, S>& exact, const Tensor<F64, S>& scales,
                 double factor) {
  EXPECT_TRUE(is_near<D>(found, exact, scales, factor));
}

}  // namespace ht::tests
