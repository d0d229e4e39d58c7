#include "values/targets_test.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "values/targets.hpp"

namespace ht::targets_test {
namespace {

using Function = int (*)();

int choose(bool has_all) {
  const Function none = nullptr;
  return choose_target(
      +[] { return 0; }, has_all ? +[] { return 4; } : none, has_all ? +[] { return 3; } : none,
      has_all ? +[] { return 2; } : none, has_all ? +[] { return 1; } : none)();
}

TEST(Targets, chooses_the_best_supported_target) {
  set_targets_for_test(HWY_AVX3 | HWY_AVX2 | HWY_SSE4 | HWY_SSSE3 | HWY_STATIC_TARGET);
  EXPECT_EQ(choose(true), 4);
  set_targets_for_test(HWY_AVX2 | HWY_SSE4 | HWY_SSSE3 | HWY_STATIC_TARGET);
  EXPECT_EQ(choose(true), 3);
  set_targets_for_test(HWY_SSE4 | HWY_SSSE3 | HWY_STATIC_TARGET);
  EXPECT_EQ(choose(true), 2);
  set_targets_for_test(HWY_SSSE3 | HWY_STATIC_TARGET);
  EXPECT_EQ(choose(true), 1);
  set_targets_for_test(HWY_STATIC_TARGET);
  EXPECT_EQ(choose(true), 0);
  set_targets_for_test(0);
}

TEST(Targets, skips_targets_that_were_not_compiled) {
  set_targets_for_test(HWY_AVX3 | HWY_AVX2 | HWY_SSE4 | HWY_SSSE3 | HWY_STATIC_TARGET);
  EXPECT_EQ(choose(false), 0);
  set_targets_for_test(0);
}

TEST(Targets, each_is_tried_once_and_the_default_is_restored) {
  const std::int64_t before = supported_targets();
  EXPECT_NE(before & HWY_STATIC_TARGET, 0);
  std::set<std::string> names;
  int tried = 0;
  testing::for_each_target([&](const char* name) {
    names.insert(name);
    ++tried;
  });
  EXPECT_EQ(names.size(), static_cast<std::size_t>(tried));
  EXPECT_GE(tried, 1);
  EXPECT_EQ(supported_targets(), before);
}

}  // namespace
}  // namespace ht::targets_test
