// Operators on OpenCL devices give the results of the host, for every dtype that a kind of device computes
// with.
#include <gtest/gtest.h>

#include <htensor/compute/elementwise.hpp>

#include "device/opencl/opencl_test.hpp"

namespace ht::opencl_elementwise_test {
namespace {

using tests::codes;
using tests::fails;
using tests::must;

class OpenClElementwise : public tests::OpenClTest {};

template <class D>
void expect_same(const Result<Tensor<D, Rank<2>>>& device_side,
                 const Result<Tensor<D, Rank<2>>>& host_result) {
  const auto device = must(device_side);
  const auto host = must(host_result);
  ASSERT_EQ(device.shape(), host.shape());
  for (std::int64_t i = 0; i < host.extent(0); ++i) {
    for (std::int64_t j = 0; j < host.extent(1); ++j) {
      const auto x = device(i, j);
      const auto y = host(i, j);
      // All NaNs compare equal.
      if (x != x && y != y) continue;
      ASSERT_EQ(tests::code_of(x), tests::code_of(y)) << i << ' ' << j;
    }
  }
}

template <class D, class T>
Result<Tensor<D, Rank<2>>> copy_to_host(const Result<T>& device_side) {
  return to_host(HT_TRY(device_side));
}

template <class Dev, class D>
void expect_operators() {
  SCOPED_TRACE(::testing::Message() << Dev::name << ' ' << D::name);
  // The elements use all bits: they include infinities, NaN, subnormal numbers and integers that wrap around.
  const auto a = tests::coded<D>(Rank<2>(31, 17));
  const auto b = tests::filled<D>(
      Rank<2>(31, 17), [](std::int64_t n) { return tests::element_of<D>(tests::nth_code(n + 10'000)); });
  const auto da = must(to_device<Dev>(a));
  const auto db = must(to_device<Dev>(Tensor<const D, Rank<2>>(b)));
  expect_same<D>(copy_to_host<D>(da + db), a + b);
  expect_same<D>(copy_to_host<D>(da - db), a - b);
  expect_same<D>(copy_to_host<D>(da * db), a * b);
  if constexpr (IsFloating<D>) expect_same<D>(copy_to_host<D>(da / db), a / b);
}

template <class Dev, class... Ds>
void expect_all_operators(DTypeList<Ds...> /*listed*/) {
  static_assert((Computes<Dev, slice::Core, Ds> && ...));
  (expect_operators<Dev, Ds>(), ...);
}

TEST_F(OpenClElementwise, equals_the_host_for_every_compute_dtype_of_a_cpu) {
  expect_all_operators<OpenCl<Cpu>>(Cpu::Numbers{});
}

TEST_F(OpenClElementwise, equals_the_host_for_every_compute_dtype_of_a_gpu) {
  expect_all_operators<OpenCl<Gpu>>(Gpu::Numbers{});
}

TEST_F(OpenClElementwise, accepts_views_of_any_strides) {
  const auto host = tests::filled<F32>(Rank<3>(3, 4, 5), tests::small_number);
  const auto device_side = must(to_device<OpenCl<Gpu>>(host));
  const auto flip = [](const auto& t) {
    return must(must(t.template slice<0>(2, -1, -1)).template select<1>(2));
  };
  const auto select_column = [](const auto& t) { return must(t.template select<1>(1)); };
  expect_same<F32>(copy_to_host<F32>(flip(device_side) * select_column(device_side)),
                   flip(host) * select_column(host));
  const auto square = must(device_side.select<0>(1)).transpose();
  const auto host_square = must(host.select<0>(1)).transpose();
  expect_same<F32>(copy_to_host<F32>(square - square), host_square - host_square);
}

TEST_F(OpenClElementwise, refuses_shapes_that_differ) {
  const auto a = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(2, 3)));
  EXPECT_TRUE(fails(a + a.transpose(), ErrorCode::shape_mismatch, "shapes_are_equal"));
}

template <class A>
concept HasSum = requires(const A& a) { a + a; };
template <class A>
concept HasQuotient = requires(const A& a) { a / a; };

TEST_F(OpenClElementwise, is_available_only_for_compute_dtypes) {
  static_assert(HasSum<Tensor<I32, Rank<1>, OpenCl<Gpu>>> && !HasQuotient<Tensor<I32, Rank<1>, OpenCl<Gpu>>>);
  static_assert(!HasSum<Tensor<C64, Rank<1>, OpenCl<Gpu>>> && !HasSum<Tensor<F4, Rank<1>, OpenCl<Cpu>>>);
  const auto empty = must(Tensor<F32, Rank<1>, OpenCl<Gpu>>::zeros(Rank<1>(0)));
  EXPECT_EQ(must(empty + empty).elements(), 0);
}

}  // namespace
}  // namespace ht::opencl_elementwise_test
