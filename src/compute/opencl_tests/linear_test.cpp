// Compares matmul and linear on OpenCL devices with the host, within the bounds of transfer.hpp.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <htensor/compute/linear.hpp>
#include <htensor/compute/matmul.hpp>

#include "compute/opencl_tests/opencl_test.hpp"

namespace ht::opencl_linear_test {
namespace {

using tests::fails;
using tests::filled;
using tests::must;
using tests::small_number;

class OpenClLinear : public tests::OpenClTest {};

// Returns the magnitudes of all elements. Bounds of products are relative to products of magnitudes.
template <class T>
auto magnitudes(const T& x) {
  auto result = must(cast<F64>(x));
  for (auto& element : result) element = std::abs(element);
  return result;
}

template <class Dev, class D, class SA, class SB>
void expect_matmul(const Tensor<D, SA>& a, const Tensor<D, SB>& b, std::int64_t k) {
  const auto device_side = must(matmul(must(to_device<Dev>(a)), must(to_device<Dev>(b))));
  static_assert(
      std::same_as<decltype(device_side),
                   const std::remove_const_t<
                       Tensor<D, typename std::remove_cvref_t<decltype(device_side)>::ShapeType, Dev>>>);
  const auto exact = must(matmul(must(cast<F64>(a)), must(cast<F64>(b))));
  const auto scales = must(matmul(magnitudes(a), magnitudes(b)));
  tests::expect_near<D>(must(to_host(device_side)), exact, scales, static_cast<double>(k));
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

TEST_F(OpenClLinear, matmul_is_within_the_error_bound_for_every_listed_dtype) {
  tests::for_each_dtype(Cpu::Floats{}, []<class D>() { expect_products<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Floats{}, []<class D>() { expect_products<OpenCl<Gpu>, D>(); });
}

TEST_F(OpenClLinear, matmul_reads_transposed_batches_and_keeps_static_extents) {
  using Dev = OpenCl<Gpu>;
  const auto a = filled<F32>(Shape<2, 3, 4>(), small_number);
  const auto b = filled<F32>(Shape<2, 5, 4>(), small_number);
  const auto device_side = must(matmul(must(to_device<Dev>(a)), must(to_device<Dev>(b)).transpose<1, 2>()));
  static_assert(std::same_as<decltype(device_side), const Tensor<F32, Shape<2, 3, 5>, Dev>>);
  const auto host_result = must(matmul(a, b.transpose<1, 2>()));
  tests::expect_near<F32>(must(to_host(device_side)), must(cast<F64>(host_result)),
                          must(matmul(magnitudes(a), magnitudes(b).transpose<1, 2>())), 8);
}

TEST_F(OpenClLinear, inner_extents_are_equal) {
  const auto a = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(2, 3)));
  EXPECT_TRUE(fails(matmul(a, a), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
  const auto w = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(4, 2)));
  EXPECT_TRUE(fails(linear(a, w), ErrorCode::shape_mismatch, "inner_extents_are_equal"));
}

TEST_F(OpenClLinear, product_without_terms_is_zero) {
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
  const auto device_side = must(to_device<Dev>(x));
  const auto weights = must(to_device<Dev>(Tensor<const W, Rank<2>>(w)));
  const auto plain = must(to_host(must(linear(device_side, weights))));
  const auto biased = must(to_host(must(linear(device_side, weights, must(to_device<Dev>(bias))))));
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

TEST_F(OpenClLinear, linear_accepts_every_listed_dtype_and_narrower_weights) {
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
}  // namespace ht::opencl_linear_test
