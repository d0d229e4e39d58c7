// Compares reductions on OpenCL devices with the host, within the bounds of transfer.hpp.
#include <gtest/gtest.h>

#include <cmath>
#include <htensor/compute/elementwise.hpp>
#include <limits>

#include "compute/opencl_tests/opencl_test.hpp"

namespace ht::opencl_reduce_test {
namespace {

using tests::fails;
using tests::filled;
using tests::must;
using tests::small_number;

class OpenClReduce : public tests::OpenClTest {};

template <class Dev, class D>
void expect_float_sum(std::int64_t n) {
  const auto host = filled<D>(Rank<1>(n), [](std::int64_t i) { return small_number(i) / 3.0F; });
  long double total = 0;
  long double magnitude = 0;
  for (const auto x : host) {
    total += static_cast<long double>(x);
    magnitude += std::abs(static_cast<long double>(x));
  }
  const auto device_side = must(to_device<Dev>(host));
  const long double factor = static_cast<long double>(n) / 1024 + 12;
  EXPECT_LE(std::abs(static_cast<long double>(must(sum(device_side))) - total),
            factor * static_cast<long double>(tests::epsilon_of<D>) * magnitude);
}

TEST_F(OpenClReduce, sums_floats_within_the_error_bound) {
  for (const std::int64_t n : {1024, 100'003}) {
    expect_float_sum<OpenCl<Cpu>, F32>(n);
    expect_float_sum<OpenCl<Cpu>, F64>(n);
    expect_float_sum<OpenCl<Gpu>, F32>(n);
  }
}

TEST_F(OpenClReduce, copy_size_fits_64_bits) {
  const auto one = must(to_device<OpenCl<Cpu>>(filled<F32>(Rank<1>(1), small_number)));
  const auto enormous = must(one.broadcast(Rank<1>(std::int64_t{1} << 62)));
  EXPECT_TRUE(fails(sum(enormous), ErrorCode::size_overflow, "copy_size_fits_64_bits"));
}

template <class Dev, class D>
void expect_reductions() {
  SCOPED_TRACE(D::name);
  // Small whole numbers, whose sums are exact in every dtype.
  const auto host =
      filled<D>(Rank<2>(9, 11), [](std::int64_t n) { return static_cast<float>((n * 7) % 11); });
  const auto device_side = must(to_device<Dev>(host));
  EXPECT_EQ(must(sum(device_side)), must(sum(host)));
  EXPECT_EQ(must(sum(device_side.transpose())), must(sum(host.transpose())));
  EXPECT_EQ(must(max(device_side)), must(max(host)));
  EXPECT_EQ(static_cast<double>(must(max(host))), 10.0);
  EXPECT_EQ(static_cast<double>(must(sum(must(device_side.template slice<1>(1, 1))))), 0.0);
}

TEST_F(OpenClReduce, reduces_every_compute_dtype) {
  tests::for_each_dtype(Cpu::Numbers{}, []<class D>() { expect_reductions<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Numbers{}, []<class D>() { expect_reductions<OpenCl<Gpu>, D>(); });
}

TEST_F(OpenClReduce, compares_signed_and_largest_unsigned_numbers) {
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

TEST_F(OpenClReduce, max_of_empty_is_an_error_and_sum_is_zero) {
  const auto empty = must(Tensor<F32, Rank<2>, OpenCl<Cpu>>::zeros(Rank<2>(0, 3)));
  EXPECT_TRUE(fails(max(empty), ErrorCode::bad_shape, "max_operand_has_elements"));
  EXPECT_EQ(must(sum(empty)), 0.0F);
}

}  // namespace
}  // namespace ht::opencl_reduce_test
