#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <htensor/compute/nn.hpp>
#include <vector>

#include "compute/nn/nn_test.hpp"
#include "tensor/test_random.hpp"

namespace ht::rope_test {
namespace {

using tests::between;
using tests::fails;
using tests::must;
using tests::random_tensor;
using tests::same_bits;
using tests::unit_roundoff;

template <class D>
using Heads = Tensor<D, Rank<3>>;

template <class D>
class Rope : public ::testing::Test {};
using Floats = ::testing::Types<F32, F64>;
TYPED_TEST_SUITE(Rope, Floats);

// Compares each pair with its exact rotation. The elements after the pairs must not change.
template <class D>
void expect_exact(const Heads<D>& x, const Heads<D>& y, const RopeOptions& options, std::int64_t rotated) {
  for (std::int64_t t = 0; t < x.extent(0); ++t) {
    for (std::int64_t h = 0; h < x.extent(1); ++h) {
      for (std::int64_t i = 0; i < rotated / 2; ++i) {
        const bool is_interleaved = options.pairs == RopeOptions::Pairs::interleaved;
        const auto first = is_interleaved ? 2 * i : i;
        const auto second = is_interleaved ? 2 * i + 1 : i + rotated / 2;
        const auto factor =
            options.frequency_factors.empty() ? 1.0 : options.frequency_factors[static_cast<std::size_t>(i)];
        const auto angle = static_cast<long double>(options.first_position + t) / factor *
                           std::pow(static_cast<long double>(options.base),
                                    -2.0L * static_cast<long double>(i) / static_cast<long double>(rotated));
        const auto a = static_cast<long double>(x(t, h, first));
        const auto b = static_cast<long double>(x(t, h, second));
        const auto bound =
            (4 * unit_roundoff<D> + 0x1p-48 * std::fabs(angle)) * (std::fabs(a) + std::fabs(b));
        ASSERT_LE(std::fabs(y(t, h, first) - (a * std::cos(angle) - b * std::sin(angle))), bound);
        ASSERT_LE(std::fabs(y(t, h, second) - (a * std::sin(angle) + b * std::cos(angle))), bound);
      }
      for (std::int64_t i = rotated; i < x.extent(2); ++i) ASSERT_EQ(y(t, h, i), x(t, h, i));
    }
  }
}

TYPED_TEST(Rope, rotates_each_pair_by_its_angle) {
  using D = TypeParam;
  const auto x = random_tensor<D>(Rank<3>(3, 2, 38), 1);
  for (const auto pairs : {RopeOptions::Pairs::interleaved, RopeOptions::Pairs::halves}) {
    for (const std::int64_t position : {0, 5, 100000}) {
      const RopeOptions whole{.pairs = pairs, .first_position = position};
      expect_exact<D>(x, must(rope(x, whole)), whole, 38);
      const RopeOptions part{
          .pairs = pairs, .base = 500000, .first_position = position, .rotated_elements = 20};
      expect_exact<D>(x, must(rope(x, part)), part, 20);
      const std::vector<double> factors{1, 1, 1.5, 2, 3, 4, 5, 6, 7, 8};
      RopeOptions slower = part;
      slower.frequency_factors = factors;
      expect_exact<D>(x, must(rope(x, slower)), slower, 20);
    }
  }
}

TYPED_TEST(Rope, reads_strided_views_and_empty_tensors) {
  using D = TypeParam;
  const auto x = random_tensor<D>(Rank<3>(4, 3, 16), 2);
  const auto swapped = must(x.template transpose<0, 1>().copy());
  const auto last = must(x.template transpose<1, 2>().copy());
  for (const auto pairs : {RopeOptions::Pairs::interleaved, RopeOptions::Pairs::halves}) {
    const RopeOptions options{.pairs = pairs, .first_position = 3};
    const auto y = must(rope(x, options));
    EXPECT_TRUE(same_bits(must(rope(swapped.template transpose<0, 1>(), options)), y));
    EXPECT_TRUE(same_bits(must(rope(last.template transpose<1, 2>(), options)), y));
  }
  EXPECT_EQ(must(rope(random_tensor<D>(Rank<3>(0, 3, 16), 1))).elements(), 0);
  EXPECT_EQ(must(rope(random_tensor<D>(Rank<3>(2, 3, 0), 1))).elements(), 0);
}

template <class D>
void check_rotation() {
  const auto x = random_tensor<D>(Rank<3>(3, 2, 2 * between(1, 20)), static_cast<unsigned>(between(0, 1000)));
  const auto pairs = between(0, 1) == 0 ? RopeOptions::Pairs::interleaved : RopeOptions::Pairs::halves;
  const auto position = between(0, 5000);
  const auto y = must(rope(x, {.pairs = pairs, .first_position = position}));
  for (std::int64_t t = 0; t < 3; ++t) {
    for (std::int64_t h = 0; h < 2; ++h) {
      long double before = 0;
      long double after = 0;
      for (std::int64_t i = 0; i < x.extent(2); ++i) {
        before += static_cast<long double>(x(t, h, i)) * static_cast<long double>(x(t, h, i));
        after += static_cast<long double>(y(t, h, i)) * static_cast<long double>(y(t, h, i));
      }
      RC_ASSERT(std::fabs(before - after) <= 16 * unit_roundoff<D> * before);
    }
  }
  // Position 0 is not rotated. The angle of a token does not depend on the tokens before it in
  // the call.
  const auto from_zero = must(rope(x, {.pairs = pairs}));
  RC_ASSERT(same_bits(must(from_zero.template slice<0>(0, 1)), must(x.template slice<0>(0, 1))));
  const auto later =
      must(rope(must(x.template slice<0>(2, 3)), {.pairs = pairs, .first_position = position + 2}));
  RC_ASSERT(same_bits(later, must(y.template slice<0>(2, 3))));
}

RC_GTEST_PROP(RopeProperty, keeps_norms_of_f32_and_position_0, ()) { check_rotation<F32>(); }
RC_GTEST_PROP(RopeProperty, keeps_norms_of_f64_and_position_0, ()) { check_rotation<F64>(); }

TEST(RopeShapes, rotated_elements_are_pairs) {
  EXPECT_TRUE(fails(rope(random_tensor<F32>(Rank<3>(1, 1, 5), 1)), ErrorCode::bad_shape,
                    "rotated_elements_are_pairs"));
  EXPECT_TRUE(fails(rope(random_tensor<F32>(Rank<3>(1, 1, 8), 1), {.rotated_elements = 3}),
                    ErrorCode::bad_shape, "rotated_elements_are_pairs"));
}

TEST(RopeShapes, rotated_elements_are_in_a_head) {
  for (const std::int64_t rotated : {10, -2}) {
    EXPECT_TRUE(fails(rope(random_tensor<F32>(Rank<3>(1, 1, 8), 1), {.rotated_elements = rotated}),
                      ErrorCode::bad_shape, "rotated_elements_are_in_a_head"));
  }
}

TEST(RopeShapes, each_pair_has_a_frequency_factor) {
  const std::vector<double> factors(3, 1.0);
  EXPECT_TRUE(fails(rope(random_tensor<F32>(Rank<3>(1, 1, 8), 1), {.frequency_factors = factors}),
                    ErrorCode::shape_mismatch, "each_pair_has_a_frequency_factor"));
}

}  // namespace
}  // namespace ht::rope_test
