// Reductions, copies, matmul and linear on OpenCL devices against the host, within the bounds of opencl.hpp.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>
#include <htensor/compute/reduce.hpp>
#include <limits>

#include "compute/opencl_compute_test.hpp"

namespace ht {
namespace {

using tests::fails;
using tests::filled;
using tests::must;
using tests::small_number;

class OpenClReduce : public tests::OpenClTest {};
class OpenClCopyInto : public tests::OpenClTest {};
class OpenClLinear : public tests::OpenClTest {};

template <class Dev>
void expect_float_sum() {
  constexpr std::int64_t n = 100'003;
  const auto host = filled<F32>(Rank<1>(n), small_number);
  double magnitude = 0;
  for (const float x : host) magnitude += std::abs(static_cast<double>(x));
  const auto there = must(to_device<Dev>(host));
  const double bound = (n / 1024.0 + 2) * tests::epsilon_of<F32> * magnitude;
  EXPECT_NEAR(static_cast<double>(must(sum(there))), must(sum(must(cast<F64>(host)))), bound);
}

TEST_F(OpenClReduce, sums_floats_within_its_bound) {
  expect_float_sum<OpenCl<Cpu>>();
  expect_float_sum<OpenCl<Gpu>>();
}

template <class Dev, class D>
void expect_reductions() {
  SCOPED_TRACE(D::name);
  // Small whole numbers, whose sums are exact in every dtype.
  const auto host =
      filled<D>(Rank<2>(9, 11), [](std::int64_t n) { return static_cast<float>((n * 7) % 11); });
  const auto there = must(to_device<Dev>(host));
  EXPECT_EQ(must(sum(there)), must(sum(host)));
  EXPECT_EQ(must(sum(there.transpose())), must(sum(host.transpose())));
  EXPECT_EQ(must(max(there)), must(max(host)));
  EXPECT_EQ(static_cast<double>(must(max(host))), 10.0);
  EXPECT_EQ(static_cast<double>(must(sum(must(there.template slice<1>(1, 1))))), 0.0);
}

TEST_F(OpenClReduce, reduces_every_dtype_that_the_streams_calculate_with) {
  tests::for_each_dtype(Cpu::Numbers{}, []<class D>() { expect_reductions<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Numbers{}, []<class D>() { expect_reductions<OpenCl<Gpu>, D>(); });
}

TEST_F(OpenClReduce, knows_signs_and_the_largest_unsigned_number) {
  const auto low =
      must(Tensor<I8, Rank<1>>::of(Rank<1>(3), {std::int8_t{-128}, std::int8_t{-5}, std::int8_t{-7}}));
  EXPECT_EQ(must(max(must(to_device<OpenCl<Cpu>>(low)))), -5);
  EXPECT_EQ(must(sum(must(to_device<OpenCl<Cpu>>(low)))), -140);
  const auto high = must(Tensor<U64, Rank<1>>::of(Rank<1>(2), {~std::uint64_t{0}, std::uint64_t{5}}));
  EXPECT_EQ(must(max(must(to_device<OpenCl<Cpu>>(high)))), ~std::uint64_t{0});
  EXPECT_EQ(must(sum(must(to_device<OpenCl<Cpu>>(high)))), 4U) << "modulo 2^64";
}

TEST_F(OpenClReduce, finds_a_nan) {
  const auto host = filled<F32>(Rank<1>(3000), small_number);
  host(1234) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(must(max(must(to_device<OpenCl<Cpu>>(host))))));
  EXPECT_TRUE(std::isnan(must(max(must(to_device<OpenCl<Gpu>>(host))))));
}

TEST_F(OpenClReduce, of_no_elements_is_an_error_or_zero) {
  const auto nothing = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(0, 3)));
  EXPECT_TRUE(fails(max(nothing), ErrorCode::bad_shape, "max_has_an_element"));
  EXPECT_EQ(must(sum(nothing)), 0.0F);
}

template <class Dev, class D>
void expect_copies() {
  SCOPED_TRACE(D::name);
  const auto cache = must(Tensor<D, Rank<3>, Dev>::zeros(Rank<3>(5, 2, 3)));
  const auto x = tests::coded<D>(Rank<3>(2, 3, 2));
  const auto there = must(to_device<Dev>(x)).template transpose<1, 2>();
  must(copy_into(must(cache.template slice<0>(1, 5, 2)), there));
  const auto host = must(Tensor<D, Rank<3>>::zeros(Rank<3>(5, 2, 3)));
  must(copy_into(must(host.template slice<0>(1, 5, 2)), x.template transpose<1, 2>()));
  EXPECT_EQ(tests::codes(must(to_host(cache))), tests::codes(host));
  EXPECT_EQ(tests::codes(must(to_host(must(there.contiguous())))),
            tests::codes(must(x.template transpose<1, 2>().contiguous())));
}

TEST_F(OpenClCopyInto, writes_a_slice_of_every_dtype_that_the_streams_calculate_with) {
  tests::for_each_dtype(Cpu::Numbers{}, []<class D>() { expect_copies<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Numbers{}, []<class D>() { expect_copies<OpenCl<Gpu>, D>(); });
}

TEST_F(OpenClCopyInto, refuses_shapes_that_differ) {
  const auto a = must(Tensor<F32, Rank<1>, OpenCl<Cpu>>::zeros(Rank<1>(3)));
  const auto b = must(Tensor<F32, Rank<1>, OpenCl<Cpu>>::zeros(Rank<1>(2)));
  EXPECT_TRUE(fails(copy_into(a, b), ErrorCode::shape_mismatch, "shapes_are_equal"));
}

// The products of magnitudes, which bounds of products are relative to.
template <class T>
auto magnitudes(const T& x) {
  auto made = must(cast<F64>(x));
  for (auto& element : made) element = std::abs(element);
  return made;
}

template <class Dev, class D, class SA, class SB>
void expect_matmul(const Tensor<D, SA>& a, const Tensor<D, SB>& b, std::int64_t k) {
  const auto there = must(matmul(must(to_device<Dev>(a)), must(to_device<Dev>(b))));
  static_assert(std::same_as<decltype(there),
                             const std::remove_const_t<
                                 Tensor<D, typename std::remove_cvref_t<decltype(there)>::ShapeType, Dev>>>);
  const auto exact = must(matmul(must(cast<F64>(a)), must(cast<F64>(b))));
  const auto scales = must(matmul(magnitudes(a), magnitudes(b)));
  tests::expect_near<D>(must(to_host(there)), exact, scales, static_cast<double>(k));
}

template <class Dev, class D>
void expect_products() {
  SCOPED_TRACE(::testing::Message() << Dev::name << ' ' << D::name);
  const auto number = [](std::int64_t n) { return small_number(n + 777); };
  for (const auto& [m, k, n] : {std::array{16, 32, 16}, std::array{17, 35, 5}, std::array{1, 1, 1}}) {
    expect_matmul<Dev>(filled<D>(Rank<2>(m, k), small_number), filled<D>(Rank<2>(k, n), number), k);
    expect_matmul<Dev>(filled<D>(Rank<1>(k), small_number), filled<D>(Rank<2>(k, n), number), k);
    expect_matmul<Dev>(filled<D>(Rank<2>(m, k), small_number), filled<D>(Rank<1>(k), number), k);
    expect_matmul<Dev>(filled<D>(Rank<4>(2, 3, m, k), small_number), filled<D>(Rank<4>(2, 3, k, n), number),
                       k);
  }
}

TEST_F(OpenClLinear, matmul_is_within_its_bound_for_every_listed_dtype) {
  tests::for_each_dtype(Cpu::Floats{}, []<class D>() { expect_products<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Floats{}, []<class D>() { expect_products<OpenCl<Gpu>, D>(); });
}

TEST_F(OpenClLinear, matmul_reads_transposed_batches_and_keeps_static_extents) {
  using Dev = OpenCl<Gpu>;
  const auto a = filled<F32>(Shape<2, 3, 4>(), small_number);
  const auto b = filled<F32>(Shape<2, 5, 4>(), small_number);
  const auto there = must(matmul(must(to_device<Dev>(a)), must(to_device<Dev>(b)).transpose<1, 2>()));
  static_assert(std::same_as<decltype(there), const Tensor<F32, Shape<2, 3, 5>, Dev>>);
  const auto here = must(matmul(a, b.transpose<1, 2>()));
  tests::expect_near<F32>(must(to_host(there)), must(cast<F64>(here)),
                          must(matmul(magnitudes(a), magnitudes(b).transpose<1, 2>())), 8);
}

TEST_F(OpenClLinear, inner_extents_are_equal) {
  const auto a = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(2, 3)));
  EXPECT_TRUE(fails(matmul(a, a), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
  const auto w = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(4, 2)));
  EXPECT_TRUE(fails(linear(a, w), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
}

TEST_F(OpenClLinear, without_terms_is_zero) {
  const auto a = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(2, 0)));
  const auto product = must(to_host(must(matmul(a, a.transpose()))));
  EXPECT_EQ(product.shape(), Rank<2>(2, 2));
  EXPECT_EQ(product(1, 1), 0.0F);
  const auto bias = must(to_device<OpenCl<Cpu>>(must(Tensor<F32, Rank<1>>::of(Rank<1>(2), {5.0F, 6.0F}))));
  EXPECT_EQ(must(to_host(must(linear(a, a, bias))))(1, 1), 6.0F);
}

template <class Dev, class D, class W>
void expect_linear(std::int64_t batch, std::int64_t k, std::int64_t n) {
  SCOPED_TRACE(::testing::Message() << Dev::name << ' ' << D::name << ' ' << W::name << ' ' << batch);
  const auto x = filled<D>(Rank<3>(batch, 1, k), small_number);
  const auto w = filled<W>(Rank<2>(n, k), [](std::int64_t i) { return 100 * small_number(i + 99); });
  const auto bias = filled<D>(Rank<1>(n), small_number);
  const auto there = must(to_device<Dev>(x));
  const auto weights = must(to_device<Dev>(Tensor<const W, Rank<2>>(w)));
  const auto plain = must(to_host(must(linear(there, weights))));
  const auto biased = must(to_host(must(linear(there, weights, must(to_device<Dev>(bias))))));
  const auto wide = must(cast<F64>(w));
  const auto scales = must(linear(magnitudes(x), magnitudes(w), magnitudes(bias)));
  tests::expect_near<D>(plain, must(linear(must(cast<F64>(x)), wide)), scales, static_cast<double>(k));
  tests::expect_near<D>(biased, must(linear(must(cast<F64>(x)), wide, must(cast<F64>(bias)))), scales,
                        static_cast<double>(k) + 1);
}

template <class Dev, class D>
void expect_linears() {
  for (const std::int64_t batch : {1, 3, 20}) {
    tests::for_each_dtype(DTypeList<D, F16, BF16, I8>{},
                          [&]<class W>() { expect_linear<Dev, D, W>(batch, 45, 19); });
  }
}

TEST_F(OpenClLinear, linear_takes_every_listed_dtype_and_narrower_weights) {
  tests::for_each_dtype(Cpu::Floats{}, []<class D>() { expect_linears<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Floats{}, []<class D>() { expect_linears<OpenCl<Gpu>, D>(); });
}

// Operands are slices of larger tensors, with offsets and strides.
void check_views_of_any_shape() {
  if (!tests::has_device<OpenCl<Gpu>>()) return;
  using Dev = OpenCl<Gpu>;
  const auto extent = [] { return *rc::gen::inRange<std::int64_t>(1, 40); };
  const auto m = extent();
  const auto k = extent();
  const auto n = extent();
  const auto a = filled<F32>(Rank<2>(k + 2, m + 3), small_number);
  const auto b = filled<F32>(Rank<2>(2 * n, k + 1), small_number);
  const auto left = [&](const auto& t) {
    return must(must(t.template slice<0>(1, k + 1)).template slice<1>(2, m + 2)).transpose();
  };
  const auto right = [&](const auto& t) {
    return must(must(t.template slice<0>(0, 2 * n, 2)).template slice<1>(1, k + 1));
  };
  const auto da = left(must(to_device<Dev>(a)));
  const auto db = right(must(to_device<Dev>(b)));
  const auto exact = must(linear(must(cast<F64>(left(a))), must(cast<F64>(right(b)))));
  const auto scales = must(linear(magnitudes(left(a)), magnitudes(right(b))));
  const auto bound = static_cast<double>(k);
  RC_ASSERT(tests::is_near<F32>(must(to_host(must(linear(da, db)))), exact, scales, bound));
  RC_ASSERT(tests::is_near<F32>(must(to_host(must(matmul(da, db.transpose())))), exact, scales, bound));
}

RC_GTEST_PROP(OpenClLinearProperty, reads_views_of_any_shape, ()) { check_views_of_any_shape(); }

}  // namespace
}  // namespace ht
