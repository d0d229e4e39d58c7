#include <htensor/device/transfer.hpp>

#include <gtest/gtest.h>

#include <algorithm>

#include "device/opencl/opencl_test.hpp"

namespace ht::devices_test {
namespace {

using tests::must;

TEST(Devices, lists_the_host_first_with_all_dtypes_and_operations) {
  const auto all = must(devices());
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].name, "Host");
  EXPECT_EQ(all[0].dtypes.size(), std::size_t{AllDTypes::size});
  EXPECT_EQ(all[0].slices, (std::vector<std::string_view>{"core", "linear", "nn", "conv"}));
}

TEST(Devices, lists_each_kind_under_the_name_of_its_type) {
  if (!tests::has_device<OpenCl<Cpu>>()) GTEST_SKIP() << "no OpenCL device: install pocl-opencl-icd";
  const auto all = must(devices());
  for (const std::string_view name : {"OpenCl<Gpu>", "OpenCl<Cpu>"}) {
    const auto found = std::ranges::find(all, name, &DeviceDescription::name);
    ASSERT_NE(found, all.end()) << name;
    EXPECT_FALSE(found->hardware.empty());
    EXPECT_GT(found->memory, 0U);
    EXPECT_EQ(std::ranges::count(found->dtypes, "F64"), name == "OpenCl<Cpu>" ? 1 : 0);
    EXPECT_EQ(found->slices, (std::vector<std::string_view>{"core", "linear", "nn", "conv"}));
  }
}

}  // namespace
}  // namespace ht::devices_test
