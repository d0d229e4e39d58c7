#include <gtest/gtest.h>

#include <cmath>
#include <htensor/compute/elementwise.hpp>
#include <limits>

#include "tensor/test_tools.hpp"

namespace ht::reduce_test {
namespace {

using tests::fails;
using tests::must;

TEST(Reduce, sums_in_a_wider_dtype) {
  const auto bytes =
      must(Tensor<U8, Rank<1>>::of(Rank<1>(3), {std::uint8_t{255}, std::uint8_t{255}, std::uint8_t{1}}));
  EXPECT_EQ(must(sum(bytes)), 511U);
  EXPECT_EQ(must(max(bytes)), 255U);
  const auto low = must(Tensor<I8, Rank<1>>::of(Rank<1>(2), {std::int8_t{-128}, std::int8_t{-5}}));
  EXPECT_EQ(must(sum(low)), -133);
  EXPECT_EQ(must(max(low)), -5);
  static_assert(std::same_as<ReductionOf<BF16>, F32> && std::same_as<ReductionOf<F64>, F64>);
  static_assert(std::same_as<ReductionOf<I4>, I64> && std::same_as<ReductionOf<U64>, U64>);
}

TEST(Reduce, adds_floats_in_double) {
  auto x = must(Tensor<F32, Rank<1>>::zeros(Rank<1>(1 << 20)));
  for (auto& element : x) element = 0.1F;
  EXPECT_EQ(must(sum(x)), static_cast<float>(static_cast<double>(0.1F) * (1 << 20)));
}

TEST(Reduce, reads_strided_views) {
  const auto x = must(Tensor<F64, Rank<2>>::of(Rank<2>(2, 3), {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(must(sum(must(x.transpose().slice<0>(0, 3, 2)))), 14.0);
  EXPECT_EQ(must(max(must(x.slice<1>(0, 2)))), 5.0);
}

TEST(Reduce, keeps_a_nan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& values : {std::array{nan, 1.0F, 2.0F}, std::array{2.0F, nan, 1.0F}})
    EXPECT_TRUE(std::isnan(must(max(must(Tensor<F32, Rank<1>>::of(Rank<1>(3), values))))));
}

TEST(Reduce, max_operand_has_elements) {
  const auto empty = must(Tensor<F32, Rank<2>>::zeros(Rank<2>(0, 3)));
  EXPECT_TRUE(fails(max(empty), ErrorCode::bad_shape, "max_operand_has_elements"));
  EXPECT_EQ(must(sum(empty)), 0.0F);
}

TEST(CopyInto, writes_a_slice_of_a_larger_tensor) {
  const auto cache = must(Tensor<I4, Rank<2>>::zeros(Rank<2>(3, 2)));
  const auto x = must(Tensor<I4, Rank<1>>::of(Rank<1>(2), {I4::Element(3), I4::Element(-2)}));
  must(copy_into(must(cache.select<0>(1)), x));
  EXPECT_EQ(static_cast<int>(static_cast<I4::Element>(cache(1, 1))), -2);
  EXPECT_EQ(static_cast<int>(static_cast<I4::Element>(cache(2, 0))), 0);
  EXPECT_TRUE(fails(copy_into(must(cache.select<1>(0)), x), ErrorCode::shape_mismatch, "shapes_are_equal"));
}

}  // namespace
}  // namespace ht::reduce_test
