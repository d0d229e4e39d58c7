#include <htensor/compute/conv.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

#include "compute/nn/nn_test.hpp"
#include "tensor/test_random.hpp"
#include "values/targets_test.hpp"

namespace ht::conv_test {
namespace {

using tests::between;
using tests::fails;
using tests::must;
using tests::random_tensor;
using tests::same_bits;
using tests::unit_roundoff;

template <class D>
using Images = Tensor<D, Rank<4>>;
template <class D>
using Vector = Tensor<D, Rank<1>>;

template <class D>
struct Case {
  Images<D> x;
  Images<D> weight;
  Vector<D> bias;
  Conv2dOptions options;
};

/// Returns a random valid convolution, with groups, padding, dilation and strides.
template <class D>
Case<D> any_case() {
  const auto seed = static_cast<unsigned>(between(0, 1000));
  Conv2dOptions options{.stride = {between(1, 3), between(1, 3)},
                        .padding = {between(0, 3), between(0, 3)},
                        .dilation = {between(1, 2), between(1, 2)},
                        .groups = between(1, 3)};
  const auto kernel_height = between(1, 3);
  const auto kernel_width = between(1, 4);
  const auto group_channels = between(1, 3);
  const auto outputs = options.groups * between(1, 6);
  const auto height = (kernel_height - 1) * options.dilation[0] + between(1, 6);
  const auto width = (kernel_width - 1) * options.dilation[1] + between(1, 20);
  return {random_tensor<D>(Rank<4>(between(1, 2), group_channels * options.groups, height, width), seed),
          random_tensor<D>(Rank<4>(outputs, group_channels, kernel_height, kernel_width), seed + 1),
          random_tensor<D>(Rank<1>(outputs), seed + 2), options};
}

/// Computes one output by the definition, in long double. Returns the value and the sum of magnitudes.
template <class D>
std::pair<long double, long double> exact(const Case<D>& c, std::int64_t image, std::int64_t output,
                                          std::int64_t row, std::int64_t column) {
  const auto& options = c.options;
  const auto group = output / (c.weight.extent(0) / options.groups);
  long double sum = 0;
  long double magnitudes = 0;
  for (std::int64_t k = 0; k < c.weight.extent(1); ++k) {
    for (std::int64_t u = 0; u < c.weight.extent(2); ++u) {
      for (std::int64_t v = 0; v < c.weight.extent(3); ++v) {
        const auto y = row * options.stride[0] + u * options.dilation[0] - options.padding[0];
        const auto x = column * options.stride[1] + v * options.dilation[1] - options.padding[1];
        if (y < 0 || y >= c.x.extent(2) || x < 0 || x >= c.x.extent(3)) continue;
        const auto product = static_cast<long double>(c.weight(output, k, u, v)) *
                             static_cast<long double>(c.x(image, group * c.weight.extent(1) + k, y, x));
        sum += product;
        magnitudes += std::fabs(product);
      }
    }
  }
  return {sum, magnitudes};
}

template <class D>
void check_against_definition() {
  auto c = any_case<D>();
  c.options.form = Conv2dOptions::Form::direct;
  const auto direct = must(conv2d(c.x, c.weight, c.bias, c.options));
  c.options.form = Conv2dOptions::Form::columns;
  const auto by_columns = must(conv2d(c.x, c.weight, c.bias, c.options));
  RC_ASSERT(same_bits(direct, by_columns));
  const auto terms = c.weight.extent(1) * c.weight.extent(2) * c.weight.extent(3);
  for (std::int64_t i = 0; i < direct.extent(0); ++i) {
    for (std::int64_t o = 0; o < direct.extent(1); ++o) {
      for (std::int64_t r = 0; r < direct.extent(2); ++r) {
        for (std::int64_t q = 0; q < direct.extent(3); ++q) {
          const auto [sum, magnitudes] = exact(c, i, o, r, q);
          const auto whole = sum + static_cast<long double>(c.bias(o));
          const auto bound =
              unit_roundoff<D> * (static_cast<long double>(terms + 1) * magnitudes + std::fabs(whole));
          RC_ASSERT(std::fabs(direct(i, o, r, q) - whole) <= bound);
        }
      }
    }
  }
  RC_ASSERT(direct.extent(2) ==
            (c.x.extent(2) + 2 * c.options.padding[0] - c.options.dilation[0] * (c.weight.extent(2) - 1) -
             1) / c.options.stride[0] +
                1);
}

RC_GTEST_PROP(Conv2dProperty, both_forms_of_f32_follow_the_definition, ()) {
  check_against_definition<F32>();
}
RC_GTEST_PROP(Conv2dProperty, both_forms_of_f64_follow_the_definition, ()) {
  check_against_definition<F64>();
}

TEST(Conv2d, kernel_of_one_element_is_a_matrix_product) {
  const auto x = random_tensor<F64>(Rank<4>(1, 5, 3, 7), 1);
  const auto weight = random_tensor<F64>(Rank<4>(6, 5, 1, 1), 2);
  const auto y = must(conv2d(x, weight));
  for (std::int64_t o = 0; o < 6; ++o) {
    for (std::int64_t p = 0; p < 21; ++p) {
      double sum = 0;
      for (std::int64_t k = 0; k < 5; ++k) sum += weight(o, k, 0, 0) * x(0, k, p / 7, p % 7);
      ASSERT_EQ(y(0, o, p / 7, p % 7), sum);
    }
  }
}

TEST(Conv2d, one_group_per_channel_convolves_each_channel) {
  const auto x = random_tensor<F32>(Rank<4>(2, 3, 6, 6), 3);
  const auto weight = random_tensor<F32>(Rank<4>(3, 1, 3, 3), 4);
  const auto y = must(conv2d(x, weight, {.padding = {1, 1}, .groups = 3}));
  EXPECT_EQ(y.shape(), Rank<4>(2, 3, 6, 6));
  for (std::int64_t c = 0; c < 3; ++c) {
    const auto alone =
        must(conv2d(must(x.slice<1>(c, c + 1)), must(weight.slice<0>(c, c + 1)), {.padding = {1, 1}}));
    EXPECT_TRUE(same_bits(must(y.slice<1>(c, c + 1)), alone));
  }
}

TEST(Conv2d, reads_strided_inputs_and_weights_of_any_storage) {
  const auto x = random_tensor<F32>(Rank<4>(2, 4, 9, 8), 5);
  const auto channels_last = must(x.transpose<1, 3>().copy());
  const auto stored = must(cast_lossy<BF16>(random_tensor<F32>(Rank<4>(5, 4, 3, 3), 6)));
  const auto weight = must(cast<F32>(stored));
  const auto bias = must(cast_lossy<F16>(random_tensor<F32>(Rank<1>(5), 7)));
  const auto y = must(conv2d(x, weight, must(cast<F32>(bias))));
  EXPECT_TRUE(same_bits(must(conv2d(channels_last.transpose<1, 3>(), stored, bias)), y));
  EXPECT_TRUE(same_bits(must(conv2d(x, as<F32>(stored), as<F32>(bias))), y));
  const auto blocks = must(cast_lossy<Q8_0>(random_tensor<F32>(Rank<4>(2, 4, 1, 32), 8)));
  const auto wide = random_tensor<F32>(Rank<4>(1, 4, 2, 40), 9);
  EXPECT_TRUE(same_bits(must(conv2d(wide, blocks)), must(conv2d(wide, must(cast<F32>(blocks))))));
}

TEST(Conv2d, large_results_are_equal_on_every_target_and_form) {
  // Large enough for several threads and tiles.
  const auto x = random_tensor<F32>(Rank<4>(2, 8, 20, 37), 10);
  const auto weight = random_tensor<F32>(Rank<4>(9, 8, 3, 3), 11);
  const auto expected = must(conv2d(x, weight, {.padding = {1, 1}, .form = Conv2dOptions::Form::direct}));
  testing::for_each_target([&](const char* target) {
    for (const auto form :
         {Conv2dOptions::Form::direct, Conv2dOptions::Form::columns, Conv2dOptions::Form::automatic})
      EXPECT_TRUE(same_bits(must(conv2d(x, weight, {.padding = {1, 1}, .form = form})), expected)) << target;
  });
}

TEST(Conv2d, accepts_empty_tensors) {
  const auto weight = random_tensor<F32>(Rank<4>(2, 3, 1, 1), 1);
  EXPECT_EQ(must(conv2d(random_tensor<F32>(Rank<4>(0, 3, 4, 4), 1), weight)).shape(), Rank<4>(0, 2, 4, 4));
  EXPECT_EQ(
      must(conv2d(random_tensor<F32>(Rank<4>(1, 3, 4, 4), 1), random_tensor<F32>(Rank<4>(0, 3, 1, 1), 1)))
          .shape(),
      Rank<4>(1, 0, 4, 4));
  const auto empty = must(conv2d(random_tensor<F32>(Rank<4>(1, 0, 2, 2), 1),
                                 random_tensor<F32>(Rank<4>(0, 0, 1, 1), 1), {.groups = INT64_MAX}));
  EXPECT_EQ(empty.elements(), 0);
  const auto bias = must(Vector<F32>::of(Rank<1>(2), {3, 4}));
  for (const auto form : {Conv2dOptions::Form::direct, Conv2dOptions::Form::columns}) {
    // Without channels, or if the whole image is padding, the results are the bias.
    const auto no_channels = must(conv2d(random_tensor<F32>(Rank<4>(1, 0, 4, 4), 1),
                                         random_tensor<F32>(Rank<4>(2, 0, 2, 2), 1), bias, {.form = form}));
    EXPECT_EQ(no_channels(0, 1, 2, 2), 4.0F);
    const auto padding = must(
        conv2d(random_tensor<F32>(Rank<4>(1, 3, 0, 0), 1), weight, bias, {.padding = {1, 1}, .form = form}));
    EXPECT_EQ(padding.shape(), Rank<4>(1, 2, 2, 2));
    EXPECT_EQ(padding(0, 0, 1, 1), 3.0F);
  }
}

const auto image = random_tensor<F32>(Rank<4>(1, 4, 5, 5), 1);
const auto kernel = random_tensor<F32>(Rank<4>(6, 4, 3, 3), 1);

TEST(Conv2d, channels_match_the_weight) {
  constexpr auto rule = "channels_match_the_weight";
  EXPECT_TRUE(fails(conv2d(image, kernel, {.groups = 2}), ErrorCode::shape_mismatch, rule));
  EXPECT_TRUE(
      fails(conv2d(image, random_tensor<F32>(Rank<4>(6, 3, 3, 3), 1)), ErrorCode::shape_mismatch, rule));
  const auto failed = conv2d(image, kernel, {.groups = 2});
  EXPECT_EQ(failed.error().message(),
            "input of shape [1, 4, 5, 5] and weight of shape [6, 4, 3, 3] in 2 groups differ in channels");
  EXPECT_TRUE(fails(conv2d(image, kernel, {.groups = INT64_MAX}), ErrorCode::shape_mismatch, rule));
}

TEST(Conv2d, groups_divide_outputs) {
  EXPECT_TRUE(fails(conv2d(image, random_tensor<F32>(Rank<4>(3, 2, 1, 1), 1), {.groups = 2}),
                    ErrorCode::bad_shape, "groups_divide_outputs"));
}

TEST(Conv2d, bias_size_matches_the_outputs) {
  EXPECT_TRUE(fails(conv2d(image, kernel, random_tensor<F32>(Rank<1>(5), 1)), ErrorCode::shape_mismatch,
                    "bias_size_matches_the_outputs"));
}

TEST(Conv2d, kernel_is_inside_the_padded_input) {
  constexpr auto rule = "kernel_is_inside_the_padded_input";
  EXPECT_TRUE(fails(conv2d(image, random_tensor<F32>(Rank<4>(1, 4, 6, 1), 1)), ErrorCode::bad_shape, rule));
  EXPECT_TRUE(fails(conv2d(image, random_tensor<F32>(Rank<4>(1, 4, 0, 1), 1)), ErrorCode::bad_shape, rule));
  EXPECT_TRUE(fails(conv2d(image, kernel, {.dilation = {3, 1}}), ErrorCode::bad_shape, rule));
  EXPECT_EQ(must(conv2d(image, kernel, {.dilation = {2, 2}})).shape(), Rank<4>(1, 6, 1, 1));
}

TEST(Conv2d, convolution_options_are_in_range) {
  constexpr auto rule = "convolution_options_are_in_range";
  for (const auto& options :
       {Conv2dOptions{.stride = {0, 1}}, Conv2dOptions{.padding = {0, -1}}, Conv2dOptions{.dilation = {1, 0}},
        Conv2dOptions{.groups = 0}, Conv2dOptions{.padding = {INT64_MAX, 0}}}) {
    EXPECT_TRUE(fails(conv2d(image, kernel, options), ErrorCode::bad_shape, rule));
  }
}

template <class X, class W>
concept HasConv2d = requires(const X& x, const W& w) { conv2d(x, w); };

TEST(Conv2d, is_available_for_f32_and_f64_and_compatible_shapes) {
  static_assert(HasConv2d<Images<F32>, Images<BF16>> && HasConv2d<Images<const F64>, Images<F32>>);
  static_assert(!HasConv2d<Images<I32>, Images<I32>> && !HasConv2d<Images<F32>, Images<F64>>);
  static_assert(!HasConv2d<Tensor<F32, Rank<3>>, Images<F32>>);
  static_assert(!HasConv2d<Tensor<F32, Shape<1, 4, 8, 8>>, Tensor<F32, Shape<2, 3, 1, 1>>>);
  const auto known = must(Tensor<F32, Shape<1, 4, 8, 8>>::zeros());
  const auto weight = must(Tensor<F32, Shape<2, 4, 3, 3>>::zeros());
  EXPECT_TRUE(
      (std::same_as<decltype(must(conv2d(known, weight))), Tensor<F32, Shape<1, 2, dynamic, dynamic>>>));
}

}  // namespace
}  // namespace ht::conv_test
