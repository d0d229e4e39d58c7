#include "device/opencl/kernels.hpp"

#include <gtest/gtest.h>

#include <htensor/dtype/device.hpp>
#include <regex>
#include <string>
#include <vector>

namespace ht::opencl_kernels_test {
namespace {

// Returns all kernel texts for tensors and weights of these dtypes.
template <class... Ds>
std::vector<std::string> texts_of(DTypeList<Ds...> /*listed*/) {
  std::vector<std::string> texts;
  for (const auto dtype : {Ds::tag...}) {
    texts.push_back(opencl::core_text(dtype));
    texts.push_back(opencl::linear_text(F32::tag, dtype));
    texts.push_back(opencl::nn_text(F32::tag, dtype, dtype));
    texts.push_back(opencl::conv_text(F32::tag, dtype, dtype));
  }
  return texts;
}

TEST(OpenClKernels, have_no_double_unless_the_tensor_is_f64) {
  for (const auto& text : texts_of(Gpu::Numbers{})) EXPECT_EQ(text.find("double"), std::string::npos);
  EXPECT_NE(opencl::core_text(F64::tag).find("typedef double Stored"), std::string::npos);
}

// A literal without a suffix is a double, too.
TEST(OpenClKernels, have_no_double_literal_in_f32) {
  const std::regex literal(R"([0-9]\.[0-9]+)");
  const std::regex macro(R"(NUMBER\([0-9.]+\))");
  for (const auto& text : texts_of(Gpu::Numbers{}))
    EXPECT_FALSE(std::regex_search(std::regex_replace(text, macro, ""), literal));
  EXPECT_NE(opencl::nn_text(F32::tag, F32::tag, F32::tag).find("#define NUMBER(x) x##f"), std::string::npos);
}

TEST(OpenClKernels, have_the_sizes_of_tiles_and_groups) {
  const auto has_definition = [](const std::string& text, const std::string& name, std::size_t number) {
    return text.find("#define " + name + ' ' + std::to_string(number) + '\n') != std::string::npos;
  };
  EXPECT_TRUE(has_definition(opencl::linear_text(F32::tag, F32::tag), "TILE", opencl::tile_size));
  EXPECT_TRUE(has_definition(opencl::nn_text(F32::tag, F32::tag, F32::tag), "LANES", opencl::group_size));
}

TEST(OpenClKernels, store_f32_as_float) {
  EXPECT_NE(opencl::core_text(F32::tag).find("typedef float Stored"), std::string::npos);
}

TEST(OpenClKernels, never_fuse_operations) {
  for (const auto& text : texts_of(Cpu::Numbers{}))
    EXPECT_TRUE(text.starts_with("#pragma OPENCL FP_CONTRACT OFF"));
}

TEST(OpenClKernels, divide_only_floating_point_numbers) {
  EXPECT_EQ(opencl::core_text(I32::tag).find("kernel void divide("), std::string::npos);
  EXPECT_NE(opencl::core_text(BF16::tag).find("kernel void divide("), std::string::npos);
}

TEST(OpenClKernels, have_every_placeholder_replaced) {
  for (const auto& text : texts_of(Cpu::Numbers{})) EXPECT_EQ(text.find('$'), std::string::npos);
}

}  // namespace
}  // namespace ht::opencl_kernels_test
