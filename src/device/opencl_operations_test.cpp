// Reductions, matmul and nn on OpenCL devices against simple loops of the host, within the bounds of
// opencl.hpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "device/opencl_test.hpp"

namespace ht {
namespace {

using tests::fails;
using tests::filled;
using tests::must;
using tests::small_number;

constexpr double epsilon = 1.0 / (1 << 23);

class OpenClReduce : public tests::OpenClTest {};
class OpenClMatmul : public tests::OpenClTest {};
class OpenClNn : public tests::OpenClTest {};

template <class Dev>
void expect_float_sum() {
  constexpr std::int64_t n = 100'003;
  const auto host = filled<F32>(Rank<1>(n), small_number);
  double exact = 0;
  double magnitude = 0;
  for (const float x : host) {
    exact += static_cast<double>(x);
    magnitude += std::abs(static_cast<double>(x));
  }
  const auto there = must(to_device<Dev>(host));
  const double bound = (n / 1024.0 + 2) * epsilon * magnitude;
  EXPECT_NEAR(static_cast<double>(must(opencl::sum(there))), exact, bound);
}

TEST_F(OpenClReduce, sums_floats_within_its_bound) {
  expect_float_sum<OpenCl<Cpu>>();
  expect_float_sum<OpenCl<Gpu>>();
}

template <class Dev, class D>
void expect_reductions() {
  SCOPED_TRACE(D::name);
  // Small whole numbers, whose sums are exact in every dtype.
  const auto number = [](std::int64_t n) { return static_cast<float>((n * 7) % 11); };
  const auto host =
      filled<D>(Rank<2>(9, 11), [&](std::int64_t n) { return static_cast<typename D::Element>(number(n)); });
  double expected = 0;
  for (std::int64_t n = 0; n < 99; ++n) expected += static_cast<double>(number(n));
  const auto there = must(to_device<Dev>(host));
  EXPECT_EQ(static_cast<double>(must(opencl::sum(there))), expected);
  EXPECT_EQ(static_cast<double>(must(opencl::sum(there.transpose()))), expected);
  EXPECT_EQ(static_cast<double>(must(opencl::max(there))), 10.0);
  EXPECT_EQ(static_cast<double>(must(opencl::sum(must(there.template slice<1>(1, 1))))), 0.0);
}

template <class Dev, class... Ds>
void expect_all_reductions(DTypeList<Ds...> /*listed*/) {
  (expect_reductions<Dev, Ds>(), ...);
}

TEST_F(OpenClReduce, reduces_every_dtype_that_the_streams_calculate_with) {
  expect_all_reductions<OpenCl<Cpu>>(Cpu::Numbers{});
  expect_all_reductions<OpenCl<Gpu>>(Gpu::Numbers{});
}

TEST_F(OpenClReduce, knows_signs_and_the_largest_unsigned_number) {
  const auto low =
      must(Tensor<I8, Rank<1>>::of(Rank<1>(3), {std::int8_t{-128}, std::int8_t{-5}, std::int8_t{-7}}));
  EXPECT_EQ(must(opencl::max(must(to_device<OpenCl<Cpu>>(low)))), -5);
  EXPECT_EQ(must(opencl::sum(must(to_device<OpenCl<Cpu>>(low)))), -140);
  const auto high = must(Tensor<U64, Rank<1>>::of(Rank<1>(2), {~std::uint64_t{0}, std::uint64_t{5}}));
  EXPECT_EQ(must(opencl::max(must(to_device<OpenCl<Cpu>>(high)))), ~std::uint64_t{0});
  EXPECT_EQ(must(opencl::sum(must(to_device<OpenCl<Cpu>>(high)))), 4U) << "modulo 2^64";
}

TEST_F(OpenClReduce, finds_a_nan) {
  const auto host = filled<F32>(Rank<1>(3000), small_number);
  host(1234) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(must(opencl::max(must(to_device<OpenCl<Cpu>>(host))))));
  EXPECT_TRUE(std::isnan(must(opencl::max(must(to_device<OpenCl<Gpu>>(host))))));
}

TEST_F(OpenClReduce, max_has_an_element) {
  const auto nothing = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(0, 3)));
  EXPECT_TRUE(fails(opencl::max(nothing), ErrorCode::bad_shape, "max_has_an_element"));
  EXPECT_EQ(must(opencl::sum(nothing)), 0.0F);
}

template <class Dev, class D>
void expect_matmul(std::int64_t m, std::int64_t k, std::int64_t n) {
  SCOPED_TRACE(::testing::Message() << D::name << ' ' << m << ' ' << k << ' ' << n);
  const auto a = filled<D>(Rank<2>(m, k), small_number);
  const auto b = filled<D>(Rank<2>(n, k), [](std::int64_t i) { return small_number(i + 777); });
  const auto product = must(opencl::matmul(must(to_device<Dev>(a)), must(to_device<Dev>(b)).transpose()));
  const auto back = must(to_host(product));
  ASSERT_EQ(back.shape(), Rank<2>(m, n));
  const double unit = D::bits == 64 ? std::numeric_limits<double>::epsilon() : epsilon;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      long double exact = 0;
      double magnitude = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const double term = static_cast<double>(a(i, l)) * static_cast<double>(b(j, l));
        exact += static_cast<long double>(term);
        magnitude += std::abs(term);
      }
      EXPECT_NEAR(static_cast<double>(back(i, j)), static_cast<double>(exact),
                  static_cast<double>(k) * unit * magnitude);
    }
  }
}

TEST_F(OpenClMatmul, is_within_its_bound_for_whole_and_broken_tiles) {
  expect_matmul<OpenCl<Cpu>, F32>(16, 32, 16);
  expect_matmul<OpenCl<Gpu>, F32>(17, 35, 5);
  expect_matmul<OpenCl<Cpu>, F32>(1, 1, 1);
  expect_matmul<OpenCl<Cpu>, F64>(33, 20, 18);
}

TEST_F(OpenClMatmul, columns_of_a_are_rows_of_b) {
  const auto a = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(2, 3)));
  const auto wrong = opencl::matmul(a, a);
  EXPECT_TRUE(fails(wrong, ErrorCode::shape_mismatch, "columns_of_a_are_rows_of_b"));
  EXPECT_NE(wrong.error().message().find("[2, 3]"), std::string_view::npos);
}

TEST_F(OpenClMatmul, without_terms_is_zero) {
  const auto a = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(2, 0)));
  const auto product = must(to_host(must(opencl::matmul(a, a.transpose()))));
  EXPECT_EQ(product.shape(), Rank<2>(2, 2));
  EXPECT_EQ(product(1, 1), 0.0F);
}

template <class Dev>
void expect_nn(std::int64_t rows, std::int64_t n) {
  const auto x = filled<F32>(Rank<2>(rows, n), [](std::int64_t i) { return 8 * small_number(i); });
  const auto weight = filled<F32>(Rank<1>(n), [](std::int64_t i) { return 1 + small_number(i); });
  const auto there = must(to_device<Dev>(x));
  const auto soft = must(to_host(must(opencl::softmax(there))));
  const auto soft_of_view =
      must(to_host(must(opencl::softmax(must(to_device<Dev>(x.transpose())).transpose()))));
  const auto norm = must(to_host(must(opencl::rms_norm(there, must(to_device<Dev>(weight))))));
  const auto smooth = must(to_host(must(opencl::silu(there))));
  const double bound = (static_cast<double>(n) / 64 + 16) * epsilon;
  for (std::int64_t i = 0; i < rows; ++i) {
    double largest = -1e300;
    double squares = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      largest = std::max(largest, static_cast<double>(x(i, j)));
      squares += static_cast<double>(x(i, j)) * static_cast<double>(x(i, j));
    }
    double powers = 0;
    for (std::int64_t j = 0; j < n; ++j) powers += std::exp(static_cast<double>(x(i, j)) - largest);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(1e-5F));
    for (std::int64_t j = 0; j < n; ++j) {
      const auto value = static_cast<double>(x(i, j));
      const double expected = std::exp(value - largest) / powers;
      EXPECT_NEAR(static_cast<double>(soft(i, j)), expected,
                  expected * (bound + (largest - value) * epsilon));
      EXPECT_EQ(soft_of_view(i, j), soft(i, j));
      const double normed = value * scale * static_cast<double>(weight(j));
      EXPECT_NEAR(static_cast<double>(norm(i, j)), normed, std::abs(normed) * bound);
      const double silu = value / (1 + std::exp(-value));
      EXPECT_NEAR(static_cast<double>(smooth(i, j)), silu, std::abs(silu) * 8 * epsilon);
    }
  }
}

TEST_F(OpenClNn, is_within_its_bounds_of_the_host) {
  expect_nn<OpenCl<Cpu>>(3, 200);
  expect_nn<OpenCl<Gpu>>(5, 7);
}

TEST_F(OpenClNn, weight_has_the_last_extent) {
  const auto x = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(2, 3)));
  const auto weight = must(Tensor<F32, Rank<1>, OpenCl<Cpu>>::zeros(Rank<1>(2)));
  EXPECT_TRUE(fails(opencl::rms_norm(x, weight), ErrorCode::shape_mismatch, "weight_has_the_last_extent"));
}

TEST_F(OpenClNn, takes_extreme_values_as_the_host_does) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto masked = must(Tensor<F32, Rank<2>>::of(Rank<2>(1, 3), {-infinity, -infinity, -infinity}));
  for (const float share : must(to_host(must(opencl::softmax(must(to_device<OpenCl<Cpu>>(masked)))))))
    EXPECT_EQ(share, 0.0F);
  const auto x = must(Tensor<F32, Rank<1>>::of(Rank<1>(3), {-infinity, -89.0F, infinity}));
  const auto y = must(to_host(must(opencl::silu(must(to_device<OpenCl<Cpu>>(x))))));
  EXPECT_EQ(y(0), 0.0F);
  EXPECT_NEAR(static_cast<double>(y(1)), -89 * std::exp(-89.0), 89 * std::exp(-89.0) * 8 * epsilon);
  EXPECT_EQ(y(2), infinity);
}

TEST_F(OpenClNn, of_no_rows_is_empty) {
  const auto x = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(0, 3)));
  EXPECT_EQ(must(opencl::softmax(x)).elements(), 0);
  EXPECT_EQ(must(opencl::silu(x)).elements(), 0);
}

}  // namespace
}  // namespace ht
