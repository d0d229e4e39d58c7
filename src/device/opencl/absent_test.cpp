// Compiled with absent.cpp in place of the runtime.
#include <gtest/gtest.h>

#include <htensor/device/transfer.hpp>

#include "tensor/test_tools.hpp"

namespace ht::opencl_absent_test {
namespace {

using tests::fails;
using tests::must;
using Card = OpenCl<Cpu>;

TEST(OpenClAbsent, build_has_opencl) {
  const auto host = must(Tensor<F32, Rank<1>>::of(Rank<1>(2), {1.0F, 2.0F}));
  constexpr auto rule = "build_has_opencl";
  EXPECT_TRUE(fails(to_device<Card>(host), ErrorCode::device_unavailable, rule));
  EXPECT_TRUE(fails(to_device<Card>(Tensor<const F32, Rank<1>>(host)), ErrorCode::device_unavailable, rule));
  EXPECT_TRUE(fails(Tensor<F32, Rank<1>, Card>::zeros(Rank<1>(2)), ErrorCode::device_unavailable, rule));
  EXPECT_TRUE(fails(OpenClQueue::create<Card>(), ErrorCode::device_unavailable, rule));
  EXPECT_FALSE(OpenClQueue::create<Card>().error().hint().empty());
}

TEST(OpenClAbsent, lists_the_host) { EXPECT_EQ(must(devices()).size(), 1U); }

}  // namespace
}  // namespace ht::opencl_absent_test
