// Compares neural network operations on OpenCL devices with the host, within the bounds of transfer.hpp.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <htensor/compute/conv.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/embedding.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/nn.hpp>
#include <limits>
#include <vector>

#include "compute/opencl_tests/opencl_test.hpp"

namespace ht::opencl_nn_test {
namespace {

using tests::fails;
using tests::filled;
using tests::must;
using tests::small_number;

class OpenClNn : public tests::OpenClTest {};
class OpenClConv : public tests::OpenClTest {};

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Returns |y| · f(x) for each element. Bounds of activations are relative to it.
template <class S, class F>
Tensor<F64, S> scaled(const Tensor<F64, S>& y, const Tensor<F64, S>& x, const F& f) {
  auto result = must(y.copy());
  auto at = x.begin();
  for (auto& element : result) element = std::abs(element) * f(*at++);
  return result;
}

template <class S>
Tensor<F64, S> all_of(S shape, double value) {
  return filled<F64>(shape, [&](std::int64_t) { return value; });
}

template <class Dev, class D>
void expect_softmax(const Tensor<D, Rank<2>>& x) {
  const auto wide = must(cast<F64>(x));
  const auto device_side = must(to_device<Dev>(x));
  const double sum_bound = static_cast<double>(x.extent(1)) / 64 + 16;
  const auto expected_softmax = must(softmax(wide));
  // The difference between an element and the largest one is at most 16.
  tests::expect_near<D>(must(to_host(must(softmax(device_side)))), expected_softmax,
                        scaled(expected_softmax, wide, [](double) { return 1.0; }), sum_bound + 16);
  // Logarithms have a magnitude of at most 16 + ln n, which is less than 32.
  const auto logs = must(log_softmax(wide));
  tests::expect_near<D>(must(to_host(must(log_softmax(device_side)))), logs, all_of(x.shape(), 1.0),
                        sum_bound + 2 * 32);
  const auto best = must(to_host(must(argmax(device_side))));
  const auto expected = must(argmax(x));
  for (std::int64_t i = 0; i < x.extent(0); ++i) EXPECT_EQ(best(i), expected(i));
}

template <class Dev, class D, class W>
void expect_norms(const Tensor<D, Rank<2>>& x) {
  const std::int64_t n = x.extent(1);
  const auto weight = filled<W>(Rank<1>(n), [](std::int64_t i) { return 1 + small_number(i); });
  const auto bias = filled<D>(Rank<1>(n), small_number);
  const auto device_side = must(to_device<Dev>(x));
  const auto device_weight = must(to_device<Dev>(weight));
  const auto wide = must(cast<F64>(x));
  const auto one = [](double) { return 1.0; };
  const auto rms = must(rms_norm(wide, weight, 1e-5));
  tests::expect_near<D>(must(to_host(must(rms_norm(device_side, device_weight, 1e-5)))), rms,
                        scaled(rms, wide, one), static_cast<double>(n) / 64 + 16);
  // The bound of layer_norm contains M / σ with M = max |x|. Elements are spread evenly over [-8, 8], so M /
  // σ is about √3, and less than 2. A row of one element has a larger M / σ, but x - mean is exactly 0.
  // Weights are below 2, results below 5.
  const double bound = (static_cast<double>(n) / 16 + 64) * 2 * 2 + 5;
  const auto scales = all_of(x.shape(), 1.0);
  tests::expect_near<D>(must(to_host(must(layer_norm(device_side, device_weight, 1e-5)))),
                        must(layer_norm(wide, weight, 1e-5)), scales, bound);
  tests::expect_near<D>(
      must(to_host(must(layer_norm(device_side, device_weight, must(to_device<Dev>(bias)), 1e-5)))),
      must(layer_norm(wide, weight, bias, 1e-5)), scales, bound);
}

template <class Dev, class D>
void expect_activations(const Tensor<D, Rank<2>>& x) {
  const auto wide = must(cast<F64>(x));
  const auto device_side = must(to_device<Dev>(x));
  const auto check = [&](const auto& device, const auto& host, const auto& factor) {
    const auto exact = must(host);
    tests::expect_near<D>(must(to_host(must(device))), exact, scaled(exact, wide, factor), 1);
  };
  check(silu(device_side), silu(wide), [](double) { return 8.0; });
  check(swiglu(device_side, device_side), swiglu(wide, wide), [](double) { return 8.0; });
  check(gelu(device_side), gelu(wide), [](double v) { return 32 + 4 * v * v; });
  check(gelu(device_side, GeluForm::tanh), gelu(wide, GeluForm::tanh),
        [](double v) { return 16 + 8 * std::abs(v) + std::abs(v * v * v); });
}

template <class Dev, class D>
void expect_rope() {
  const auto x = filled<D>(Rank<3>(5, 2, 12), small_number);
  const auto device_side = must(to_device<Dev>(x));
  for (const auto pairs : {RopeOptions::Pairs::interleaved, RopeOptions::Pairs::halves}) {
    const RopeOptions options{.pairs = pairs, .base = 500.0, .first_position = 7, .rotated_elements = 8};
    const auto exact = must(rope(must(cast<F64>(x)), options));
    tests::expect_near<D>(must(to_host(must(rope(device_side, options)))), exact, all_of(x.shape(), 2.0), 4);
  }
}

template <class Dev, class D>
void expect_embedding() {
  const std::vector<std::int32_t> ids{4, 0, 4, 2};
  tests::for_each_dtype(DTypeList<D, BF16, U8>{}, [&]<class W>() {
    const auto table = filled<W>(Rank<2>(5, 3), [](std::int64_t n) { return 10 + n; });
    const auto device_side = must(to_device<Dev>(table));
    const auto rows = must(embedding<D>(device_side, ids));
    static_assert(std::same_as<decltype(rows), const Tensor<D, Rank<2>, Dev>>);
    EXPECT_EQ(tests::codes(must(to_host(rows))), tests::codes(must(embedding<D>(table, ids))));
    const std::vector<std::int64_t> column{2, 1};
    EXPECT_EQ(tests::codes(must(to_host(must(embedding<D>(device_side.transpose(), column))))),
              tests::codes(must(embedding<D>(table.transpose(), column))));
  });
}

template <class Dev, class D>
void expect_nn() {
  SCOPED_TRACE(::testing::Message() << Dev::name << ' ' << D::name);
  static_assert(Computes<Dev, slice::Nn, D>);
  for (const auto& [rows, n] : {std::array{3, 200}, std::array{5, 7}, std::array{1, 1}}) {
    const auto x = filled<D>(Rank<2>(rows, n), [](std::int64_t i) { return 8 * small_number(i); });
    expect_softmax<Dev>(x);
    expect_norms<Dev, D, D>(x);
    expect_norms<Dev, D, BF16>(x);
    expect_activations<Dev>(x);
  }
  expect_rope<Dev, D>();
  expect_embedding<Dev, D>();
}

TEST_F(OpenClNn, is_within_the_error_bound_for_every_listed_dtype) {
  tests::for_each_dtype(Cpu::Floats{}, []<class D>() { expect_nn<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Floats{}, []<class D>() { expect_nn<OpenCl<Gpu>, D>(); });
}

TEST_F(OpenClNn, reads_views_and_keeps_static_extents) {
  using Dev = OpenCl<Gpu>;
  const auto x = filled<F32>(Shape<6, 8>(), small_number);
  const auto device_side = must(to_device<Dev>(x));
  const auto view = [](const auto& t) { return must(t.transpose().template slice<1>(1, 6, 2)); };
  const auto dense = must(to_device<Dev>(must(view(x).copy())));
  EXPECT_EQ(tests::codes(must(to_host(must(softmax(view(device_side)))))),
            tests::codes(must(to_host(must(softmax(dense))))));
  EXPECT_EQ(tests::codes(must(to_host(must(silu(view(device_side)))))),
            tests::codes(must(to_host(must(silu(dense))))));
  EXPECT_EQ(tests::codes(must(to_host(must(swiglu(view(device_side), view(device_side)))))),
            tests::codes(must(to_host(must(swiglu(dense, dense))))));
  EXPECT_EQ(tests::codes(must(to_host(must(argmax(view(device_side)))))),
            tests::codes(must(argmax(view(x)))));
  static_assert(std::same_as<decltype(gelu(device_side)), Result<Tensor<F32, Shape<6, 8>, Dev>>>);
  static_assert(std::same_as<decltype(argmax(device_side)), Result<Tensor<I64, Shape<6>, Dev>>>);
}

TEST_F(OpenClNn, weight_size_matches_the_row) {
  const auto x = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(2, 3)));
  const auto weight = must(Tensor<F32, Rank<1>, OpenCl<Cpu>>::zeros(Rank<1>(2)));
  constexpr auto rule = "weight_size_matches_the_row";
  EXPECT_TRUE(fails(rms_norm(x, weight, 1e-5), ErrorCode::shape_mismatch, rule));
  EXPECT_TRUE(fails(layer_norm(x, weight, 1e-5), ErrorCode::shape_mismatch, rule));
}

TEST_F(OpenClNn, matches_the_host_for_extreme_values) {
  using Dev = OpenCl<Cpu>;
  const auto masked = must(Tensor<F32, Rank<2>>::of(Rank<2>(1, 3), {-infinity, -infinity, -infinity}));
  const auto device_side = must(to_device<Dev>(masked));
  for (const float value : must(to_host(must(softmax(device_side))))) EXPECT_EQ(value, 0.0F);
  for (const float value : must(to_host(must(log_softmax(device_side))))) EXPECT_EQ(value, -infinity);
  const auto x =
      must(to_device<Dev>(must(Tensor<F32, Rank<1>>::of(Rank<1>(3), {-infinity, 2.0F, infinity}))));
  for (const auto& y : {must(to_host(must(silu(x)))), must(to_host(must(gelu(x)))),
                        must(to_host(must(gelu(x, GeluForm::tanh))))}) {
    EXPECT_EQ(y(0), 0.0F);
    EXPECT_TRUE(std::signbit(y(0)));
    EXPECT_EQ(y(2), infinity);
  }
  for (const float value : must(to_host(must(softmax(x))))) EXPECT_TRUE(std::isnan(value));
}

TEST_F(OpenClNn, argmax_finds_the_first_nan_and_the_first_of_equal_elements) {
  const auto x = filled<F32>(Rank<2>(2, 300), [](std::int64_t n) { return n % 7; });
  x(1, 200) = std::numeric_limits<float>::quiet_NaN();
  x(1, 250) = std::numeric_limits<float>::quiet_NaN();
  const auto best = must(to_host(must(argmax(must(to_device<OpenCl<Gpu>>(x))))));
  EXPECT_EQ(best(0), 6);
  EXPECT_EQ(best(1), 200);
}

TEST_F(OpenClNn, accepts_inputs_without_rows) {
  const auto x = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(0, 3)));
  EXPECT_EQ(must(softmax(x)).elements(), 0);
  EXPECT_EQ(must(silu(x)).elements(), 0);
  EXPECT_EQ(must(argmax(x)).elements(), 0);
  EXPECT_EQ(must(softmax(x.transpose())).elements(), 0);
  EXPECT_TRUE(fails(argmax(x.transpose()), ErrorCode::bad_shape, "rows_have_elements"));
}

TEST_F(OpenClNn, refuses_the_same_ids_and_heads_as_the_host) {
  const auto table = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(4, 3)));
  const std::vector<std::int32_t> ids{4};
  EXPECT_TRUE(fails(embedding(table, ids), ErrorCode::out_of_bounds, "id_is_a_row_of_the_table"));
  const auto x = must(Tensor<F32, Rank<3>, OpenCl<Cpu>>::zeros(Rank<3>(1, 2, 3)));
  EXPECT_TRUE(fails(rope(x), ErrorCode::bad_shape, "rotated_elements_are_pairs"));
}

TEST_F(OpenClNn, adds_and_multiplies_in_place_and_scales) {
  using Dev = OpenCl<Gpu>;
  const auto a = filled<F32>(Rank<2>(5, 7), small_number);
  const auto bias = filled<F32>(Rank<1>(7), small_number);
  const auto device_side = must(to_device<Dev>(a));
  const auto added = must(to_device<Dev>(bias));
  must(add_into(must(device_side.slice<0>(1, 4)), must(added.broadcast(Rank<2>(3, 7)))));
  must(multiply_into(device_side.transpose(), device_side.transpose()));
  const auto scaled_device_side = must(to_host(must(scale(device_side, 0.3F))));
  must(add_into(must(a.slice<0>(1, 4)), must(bias.broadcast(Rank<2>(3, 7)))));
  must(multiply_into(a.transpose(), a.transpose()));
  EXPECT_EQ(tests::codes(scaled_device_side), tests::codes(must(scale(a, 0.3F))));
}

// Computes a layer on a queue of the caller. One template serves every device.
template <class Dev>
float run_on_queue() {
  const auto queue = must(OpenClQueue::create<Dev>());
  const ComputeOptions on{.queue = &queue};
  const auto x = must(to_device<Dev>(filled<F32>(Rank<2>(4, 8), small_number), on));
  const auto w = must(to_device<Dev>(filled<F32>(Rank<2>(8, 8), small_number), on));
  const auto y = must(linear(x.transpose().transpose(), w, {.queue = &queue}));
  const auto z = must(combine(std::plus<>{}, must(gelu(y, GeluForm::exact, on)), must(softmax(y, on)), on));
  return must(sum(must(scale(z, 2.0F, on)), on));
}

TEST_F(OpenClNn, runs_one_template_on_a_queue_of_each_device) {
  EXPECT_EQ(run_on_queue<OpenCl<Cpu>>(), run_on_queue<OpenCl<Gpu>>());
}

template <class Dev, class D, class W>
void expect_conv(const Conv2dOptions& options) {
  const auto x = filled<D>(Rank<4>(2, 4, 7, 9), small_number);
  const auto w =
      filled<W>(Rank<4>(6, 4 / options.groups, 3, 2), [](std::int64_t n) { return small_number(n + 5); });
  const auto b = filled<D>(Rank<1>(6), small_number);
  const auto device_side = must(to_device<Dev>(x));
  const auto weight = must(to_device<Dev>(w));
  const auto wide = must(cast<F64>(x));
  const auto exact = must(conv2d(wide, w, b, options));
  // The depth is at most 24, and no product or bias exceeds 1.
  tests::expect_near<D>(must(to_host(must(conv2d(device_side, weight, must(to_device<Dev>(b)), options)))),
                        exact, all_of(exact.shape(), 25.0), 26);
  const auto plain = must(conv2d(wide, w, options));
  tests::expect_near<D>(must(to_host(must(conv2d(device_side, weight, options)))), plain,
                        all_of(plain.shape(), 25.0), 26);
}

template <class Dev, class D>
void expect_convs() {
  SCOPED_TRACE(::testing::Message() << Dev::name << ' ' << D::name);
  static_assert(Computes<Dev, slice::Conv, D>);
  expect_conv<Dev, D, D>({});
  expect_conv<Dev, D, D>({.stride = {2, 1}, .padding = {1, 2}, .groups = 2});
  expect_conv<Dev, D, BF16>({.padding = {2, 0}, .dilation = {2, 3}});
}

TEST_F(OpenClConv, is_within_the_error_bound_for_every_listed_dtype) {
  tests::for_each_dtype(Cpu::Floats{}, []<class D>() { expect_convs<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Floats{}, []<class D>() { expect_convs<OpenCl<Gpu>, D>(); });
}

TEST_F(OpenClConv, refuses_the_same_shapes_as_the_host) {
  const auto x = must(Tensor<F32, Rank<4>, OpenCl<Cpu>>::zeros(Rank<4>(1, 4, 2, 2)));
  const auto w = must(Tensor<F32, Rank<4>, OpenCl<Cpu>>::zeros(Rank<4>(2, 3, 1, 1)));
  EXPECT_TRUE(fails(conv2d(x, w), ErrorCode::shape_mismatch, "channels_match_the_weight"));
}

void check_conv_shapes() {
  if (!tests::has_device<OpenCl<Gpu>>()) return;
  const auto extent = [](std::int64_t end) { return *rc::gen::inRange<std::int64_t>(1, end); };
  const auto groups = extent(4);
  const auto x = filled<F32>(Rank<4>(extent(3), groups * extent(3), extent(9), extent(9)), small_number);
  const auto w =
      filled<F32>(Rank<4>(groups * extent(3), x.extent(1) / groups, extent(4), extent(4)), small_number);
  const Conv2dOptions options{
      .stride = {extent(4), extent(4)}, .padding = {extent(3), extent(3)}, .groups = groups};
  const auto host_result = conv2d(x, w, options);
  const auto device_side = conv2d(must(to_device<OpenCl<Gpu>>(x)), must(to_device<OpenCl<Gpu>>(w)), options);
  RC_ASSERT(host_result.has_value() == device_side.has_value());
  if (!host_result) return;
  // Kernels add in the same order as the host and never fuse operations, so the bits are the same.
  RC_ASSERT(must(to_host(must(device_side))).shape() == host_result->shape());
  RC_ASSERT(tests::codes(must(to_host(must(device_side)))) == tests::codes(*host_result));
}

RC_GTEST_PROP(OpenClConvProperty, equals_the_host_in_shape_and_bits, ()) { check_conv_shapes(); }

}  // namespace
}  // namespace ht::opencl_nn_test
