#include "device/opencl_kernels.hpp"

#include <gtest/gtest.h>

#include <htensor/dtype/device.hpp>
#include <string>

namespace ht {
namespace {

template <class... Ds>
void expect_no_double(DTypeList<Ds...> /*listed*/) {
  for (const auto dtype : {Ds::tag...}) EXPECT_EQ(opencl::core_text(dtype).find("double"), std::string::npos);
}

TEST(OpenClKernels, have_no_double_unless_the_tensor_is_f64) {
  expect_no_double(Gpu::Numbers{});
  EXPECT_EQ(opencl::linear_text(F32::tag).find("double"), std::string::npos);
  EXPECT_EQ(opencl::nn_text().find("double"), std::string::npos);
  EXPECT_NE(opencl::core_text(F64::tag).find("typedef double Stored"), std::string::npos);
}

TEST(OpenClKernels, store_f32_as_float) {
  EXPECT_NE(opencl::core_text(F32::tag).find("typedef float Stored"), std::string::npos);
}

TEST(OpenClKernels, never_fuse_operations) {
  for (const auto& text : {opencl::core_text(F32::tag), opencl::linear_text(F32::tag), opencl::nn_text()})
    EXPECT_TRUE(text.starts_with("#pragma OPENCL FP_CONTRACT OFF"));
}

TEST(OpenClKernels, divide_only_floating_point_numbers) {
  EXPECT_EQ(opencl::core_text(I32::tag).find("kernel void divide("), std::string::npos);
  EXPECT_NE(opencl::core_text(BF16::tag).find("kernel void divide("), std::string::npos);
}

TEST(OpenClKernels, have_every_placeholder_replaced) {
  EXPECT_EQ(opencl::core_text(F16::tag).find('$'), std::string::npos);
}

}  // namespace
}  // namespace ht
