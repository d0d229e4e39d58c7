// Tools for tests of OpenCL: the setting that lets PoCL serve `Gpu`, and tensors filled by a function.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <htensor/device/transfer.hpp>
#include <vector>

#include "tensor/test_tools.hpp"

// LeakSanitizer cannot stop the threads of PoCL, and fails.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" [[gnu::used]] inline int __lsan_is_turned_off() { return 1; }

namespace ht::tests {

// Set before main, because the variable is read when a test lists devices for the first time.
inline const int gpu_is_any = setenv("HT_OPENCL_GPU", "any", 1);

/// Whether the machine has an OpenCL device of this type. PoCL serves both kinds.
template <class Dev>
bool has_device() {
  return Dev::allocate(0).has_value();
}

class OpenClTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device<OpenCl<Cpu>>() || !has_device<OpenCl<Gpu>>())
      GTEST_SKIP() << "no OpenCL device: install pocl-opencl-icd";
  }
};

/// A host tensor whose elements are f(0), f(1), … in row-major order.
template <class D, class S, class F>
Tensor<D, S> filled(S shape, const F& f) {
  auto tensor = must(Tensor<D, S>::zeros(shape));
  std::int64_t n = 0;
  for (auto&& element : tensor) element = static_cast<typename D::Element>(f(n++));
  return tensor;
}

/// Values in [-1, 1). They repeat only after more elements than any test has.
inline float small_number(std::int64_t n) {
  return static_cast<float>(static_cast<std::int64_t>(nth_code(n) >> 40) - (1 << 23)) /
         static_cast<float>(1 << 23);
}

}  // namespace ht::tests
