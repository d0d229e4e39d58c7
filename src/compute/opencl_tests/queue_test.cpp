// Operations on OpenCL devices use the queue of the caller for all of their commands.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <htensor/compute/conv.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/embedding.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>
#include <htensor/compute/nn.hpp>
#include <vector>

#include "device/opencl/opencl_test.hpp"
#include "device/opencl/queue_test.hpp"

namespace ht::opencl_queue_test {
namespace {

using tests::must;
using Dev = OpenCl<Gpu>;

class OpenClQueues : public tests::OpenClTest {
 protected:
  /// `run` takes ComputeOptions. It runs on the default queue first, so that all kernels are built.
  template <class Run>
  static void expect_uses_the_queue(const Run& run) {
    must(run(ComputeOptions{}));
    const auto queue = must(OpenClQueue::create<Dev>());
    const ComputeOptions options{.queue = &queue};
    EXPECT_TRUE(tests::ends_while_the_default_queue_is_blocked<Dev>([&] { must(run(options)); }));
  }
  template <class D = F32, class S>
  static Tensor<D, S, Dev> device_tensor(S shape) {
    return must(to_device<Dev>(tests::filled<D>(shape, tests::small_number)));
  }
};

TEST_F(OpenClQueues, operations_without_a_queue_wait_for_the_default_queue) {
  const auto x = device_tensor(Rank<1>(8));
  EXPECT_FALSE(tests::ends_while_the_default_queue_is_blocked<Dev>([&] { must(x + x); },
                                                                   std::chrono::milliseconds(200)));
}

TEST_F(OpenClQueues, run_all_commands_of_core) {
  // Most operations copy transposed operands first.
  const auto x = device_tensor(Rank<2>(6, 9)).transpose();
  const auto into = device_tensor(Rank<2>(6, 9)).transpose();
  using Options = const ComputeOptions&;
  expect_uses_the_queue([&](Options options) { return combine(std::plus<>{}, x, x, options); });
  expect_uses_the_queue([&](Options options) { return scale(x, 0.5F, options); });
  expect_uses_the_queue([&](Options options) { return add_into(into, x, options); });
  expect_uses_the_queue([&](Options options) { return multiply_into(into, x, options); });
  expect_uses_the_queue([&](Options options) { return copy_into(into, x, options); });
  expect_uses_the_queue([&](Options options) { return x.copy(options); });
  expect_uses_the_queue([&](Options options) { return x.contiguous(options); });
  expect_uses_the_queue([&](Options options) { return sum(x, options); });
  expect_uses_the_queue([&](Options options) { return max(x, options); });
}

TEST_F(OpenClQueues, run_all_commands_of_linear) {
  const auto x = device_tensor(Rank<2>(6, 9)).transpose();
  const auto w = device_tensor<BF16>(Rank<2>(5, 6));
  const auto bias = device_tensor(Rank<1>(5));
  using Options = const ComputeOptions&;
  expect_uses_the_queue([&](Options options) { return matmul(x, x.transpose(), options); });
  expect_uses_the_queue([&](Options options) { return linear(x, w, {.queue = options.queue}); });
  expect_uses_the_queue([&](Options options) { return linear(x, w, bias, {.queue = options.queue}); });
}

TEST_F(OpenClQueues, run_all_commands_of_nn) {
  const auto x = device_tensor(Rank<2>(6, 9)).transpose();
  const auto heads = device_tensor(Rank<3>(3, 2, 8));
  const auto weight = device_tensor<BF16>(Rank<1>(6));
  const std::vector<std::int32_t> ids{1, 0};
  using Options = const ComputeOptions&;
  expect_uses_the_queue([&](Options options) { return softmax(x, options); });
  expect_uses_the_queue([&](Options options) { return log_softmax(x, options); });
  expect_uses_the_queue([&](Options options) { return rms_norm(x, weight, 1e-5, options); });
  expect_uses_the_queue([&](Options options) { return layer_norm(x, weight, 1e-5, options); });
  expect_uses_the_queue([&](Options options) { return layer_norm(x, weight, weight, 1e-5, options); });
  expect_uses_the_queue([&](Options options) { return silu(x, options); });
  expect_uses_the_queue([&](Options options) { return gelu(x, GeluForm::tanh, options); });
  expect_uses_the_queue([&](Options options) { return swiglu(x, x, options); });
  expect_uses_the_queue([&](Options options) { return rope(heads, {}, options); });
  expect_uses_the_queue([&](Options options) { return argmax(x, options); });
  expect_uses_the_queue([&](Options options) { return embedding(x, ids, options); });
}

TEST_F(OpenClQueues, run_all_commands_of_conv) {
  const auto x = device_tensor(Rank<4>(2, 4, 6, 5));
  const auto weight = device_tensor(Rank<4>(2, 4, 3, 3));
  const auto bias = device_tensor(Rank<1>(2));
  using Options = const ComputeOptions&;
  expect_uses_the_queue([&](Options options) { return conv2d(x, weight, {}, options); });
  expect_uses_the_queue([&](Options options) { return conv2d(x, weight, bias, {}, options); });
}

}  // namespace
}  // namespace ht::opencl_queue_test
