// Compares copies into slices on OpenCL devices with copies on the host.
#include <gtest/gtest.h>

#include <htensor/compute/elementwise.hpp>

#include "compute/opencl_tests/opencl_test.hpp"

namespace ht::opencl_copy_into_test {
namespace {

using tests::fails;
using tests::must;

class OpenClCopyInto : public tests::OpenClTest {};

template <class Dev, class D>
void expect_copies() {
  SCOPED_TRACE(D::name);
  const auto cache = must(Tensor<D, Rank<3>, Dev>::zeros(Rank<3>(5, 2, 3)));
  const auto x = tests::coded<D>(Rank<3>(2, 3, 2));
  const auto device_side = must(to_device<Dev>(x)).template transpose<1, 2>();
  must(copy_into(must(cache.template slice<0>(1, 5, 2)), device_side));
  const auto host = must(Tensor<D, Rank<3>>::zeros(Rank<3>(5, 2, 3)));
  must(copy_into(must(host.template slice<0>(1, 5, 2)), x.template transpose<1, 2>()));
  EXPECT_EQ(tests::codes(must(to_host(cache))), tests::codes(host));
  EXPECT_EQ(tests::codes(must(to_host(must(device_side.contiguous())))),
            tests::codes(must(x.template transpose<1, 2>().contiguous())));
}

TEST_F(OpenClCopyInto, writes_a_slice_of_every_compute_dtype) {
  tests::for_each_dtype(Cpu::Numbers{}, []<class D>() { expect_copies<OpenCl<Cpu>, D>(); });
  tests::for_each_dtype(Gpu::Numbers{}, []<class D>() { expect_copies<OpenCl<Gpu>, D>(); });
}

TEST_F(OpenClCopyInto, refuses_shapes_that_differ) {
  const auto a = must(Tensor<F32, Rank<1>, OpenCl<Cpu>>::zeros(Rank<1>(3)));
  const auto b = must(Tensor<F32, Rank<1>, OpenCl<Cpu>>::zeros(Rank<1>(2)));
  EXPECT_TRUE(fails(copy_into(a, b), ErrorCode::shape_mismatch, "shapes_are_equal"));
}

}  // namespace
}  // namespace ht::opencl_copy_into_test
