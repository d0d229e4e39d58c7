#include <gtest/gtest.h>

#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <string>

namespace ht::cpu_features_test {
namespace {

TEST(CpuFeatures, name_the_kernels_in_use) {
  const std::string features(cpu_features());
  EXPECT_EQ(features.size(), std::string_view(cpu_features().data()).size());
  const bool has_kernel = features.find(crc64nvme_kernel()) != std::string::npos;
  EXPECT_EQ(has_kernel, crc64nvme_kernel() != "table") << features;
#if defined(__x86_64__)
  EXPECT_EQ(features.starts_with("avx"), __builtin_cpu_supports("avx2") != 0) << features;
#endif
  EXPECT_EQ(features.find("  "), std::string::npos);
  EXPECT_EQ(cpu_features().data(), cpu_features().data());
}

}  // namespace
}  // namespace ht::cpu_features_test
