#include "device/opencl/runtime.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/opencl/opencl_test.hpp"

namespace ht::opencl_runtime_test {
namespace {

using opencl::Facts;
using tests::fails;
using tests::must;

class OpenClRuntime : public tests::OpenClTest {};

TEST(OpenClLibrary, opencl_library_is_installed) {
  const auto missing = opencl::load_library("libOpenCL-unknown.so.1");
  EXPECT_TRUE(fails(missing, ErrorCode::device_unavailable, "opencl_library_is_installed"));
  EXPECT_FALSE(missing.error().hint().empty());
}

TEST(OpenClLibrary, device_has_memory) {
  for (const cl_int status : {CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES, CL_OUT_OF_HOST_MEMORY})
    EXPECT_TRUE(fails(opencl::check(status, "try"), ErrorCode::out_of_memory, "device_has_memory"));
}

TEST(OpenClLibrary, opencl_call_succeeds) {
  EXPECT_TRUE(
      fails(opencl::check(CL_INVALID_KERNEL, "try"), ErrorCode::device_unavailable, "opencl_call_succeeds"));
  EXPECT_TRUE(opencl::check(CL_SUCCESS, "try"));
}

// A driver that builds no program, and whose build log is empty: one zero byte.
opencl::Library driver_with_empty_build_log() {
  opencl::Library driver;
  driver.create_context = [](auto...) -> cl_context { return nullptr; };
  driver.create_program = [](auto...) -> cl_program { return nullptr; };
  driver.release_program = [](auto...) -> cl_int { return CL_SUCCESS; };
  driver.build_program = [](auto...) -> cl_int { return CL_BUILD_PROGRAM_FAILURE; };
  driver.build_info = [](cl_program, cl_device_id, cl_program_build_info, std::size_t, void*,
                         std::size_t* size) -> cl_int {
    if (size != nullptr) *size = 1;
    return CL_SUCCESS;
  };
  return driver;
}

TEST(OpenClPrograms, report_an_empty_build_log) {
  const auto driver = driver_with_empty_build_log();
  opencl::Device device(driver, nullptr, {.name = "card"});
  const auto broken = device.program("kernel void broken() {}");
  EXPECT_TRUE(fails(broken, ErrorCode::device_unavailable, "kernels_build_on_the_device"));
  EXPECT_EQ(broken.error().message(), "device 'card': a kernel does not build: the build log is empty");
}

TEST(OpenClKinds, select_the_devices_of_their_type) {
  const std::vector<Facts> devices{{.name = "cpu", .is_cpu = true},
                                   {.name = "card 0", .is_gpu = true},
                                   {.name = "card 1", .is_gpu = true}};
  using Positions = std::vector<std::size_t>;
  EXPECT_EQ(opencl::devices_of_kind(devices, true, false), (Positions{1, 2}));
  EXPECT_EQ(opencl::devices_of_kind(devices, false, false), (Positions{0}));
  EXPECT_EQ(opencl::devices_of_kind(devices, true, true), (Positions{0, 1, 2}));
  EXPECT_EQ(opencl::devices_of_kind(devices, false, true), (Positions{0}));
}

TEST_F(OpenClRuntime, device_index_exists) {
  const auto absent = Tensor<F32, Rank<1>, OpenCl<Cpu, 9>>::zeros(Rank<1>(1));
  EXPECT_TRUE(fails(absent, ErrorCode::device_unavailable, "device_index_exists"));
  EXPECT_THAT(std::string(absent.error().message()), ::testing::HasSubstr("OpenCl<Cpu, 9>"));
  EXPECT_EQ(absent.error().hint(), "use a smaller index of the device");
}

TEST_F(OpenClRuntime, kernels_build_on_the_device) {
  auto* const device = must(opencl::find_device(OpenCl<Cpu>::target));
  const auto broken = device->program("kernel void broken(global float* a) { a[0] = unknown_name; }");
  EXPECT_TRUE(fails(broken, ErrorCode::device_unavailable, "kernels_build_on_the_device"));
  EXPECT_THAT(std::string(broken.error().message()), ::testing::HasSubstr("unknown_name"));
  EXPECT_EQ(broken.error().message().find('\n'), std::string_view::npos);
}

TEST_F(OpenClRuntime, builds_a_program_once) {
  auto* const device = must(opencl::find_device(OpenCl<Cpu>::target));
  const std::string text = "kernel void once(global float* a) { a[0] = 1; }";
  EXPECT_EQ(must(device->program(text)), must(device->program(text)));
}

TEST(OpenClFacts, device_has_double_precision) {
  const opencl::Facts without{.name = "small"};
  const opencl::Facts with{.name = "large", .has_doubles = true};
  EXPECT_TRUE(tests::fails(opencl::check_dtype(without, F64::tag), ErrorCode::device_unavailable,
                           "device_has_double_precision"));
  EXPECT_TRUE(opencl::check_dtype(without, F32::tag));
  EXPECT_TRUE(opencl::check_dtype(with, F64::tag));
}

}  // namespace
}  // namespace ht::opencl_runtime_test
