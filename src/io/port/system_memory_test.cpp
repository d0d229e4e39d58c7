#include "io/port/system_memory.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "io/port/port.hpp"
#include "testing/temporary_folder.hpp"

namespace ht::io::system_memory_test {
namespace {

TEST(SystemMemory, numbers_follow_the_key_at_the_start_of_the_line) {
  EXPECT_EQ(number_after("MemFree:  7 kB\nMemAvailable:   42 kB\n", "MemAvailable:"), 42U);
  EXPECT_EQ(number_after("file_mapped 1\nfile 2", "file"), 2U);
  EXPECT_EQ(number_after("unfile 1\n", "file"), std::nullopt);
  EXPECT_EQ(number_after("file max\n", "file"), std::nullopt);
  EXPECT_EQ(number_after("", "file"), std::nullopt);
}

TEST(SystemMemory, control_groups_of_both_versions_are_found) {
  EXPECT_EQ(control_group("0::/user/a\n", ""), "/user/a");
  EXPECT_EQ(control_group("5:cpu:/\n4:memory:/box\n0::/\n", "memory"), "/box");
  EXPECT_EQ(control_group("5:cpu:/\n", "memory"), std::nullopt);
  EXPECT_EQ(control_group("nonsense", ""), std::nullopt);
}

TEST(SystemMemory, the_page_cache_counts_as_available) {
  EXPECT_EQ(available_below_limit("100\n", "60\n", 20), 60U);
  EXPECT_EQ(available_below_limit("100", "150", 0), 0U);
  EXPECT_EQ(available_below_limit("100", "50", 70), 100U);
  EXPECT_EQ(available_below_limit("max\n", "60", 0), std::nullopt);
}

TEST(SystemMemory, limits_of_all_groups_up_to_the_root_apply) {
  const ht::testing::TemporaryFolder folder;
  const auto limit = [](const std::filesystem::path& group, std::string_view bytes) {
    std::filesystem::create_directories(group);
    ht::testing::write_file(group / "memory.max", bytes);
    ht::testing::write_file(group / "memory.current", "100\n");
  };
  const auto available = [&] { return available_in_groups("0::/a/b\n", folder.path()); };
  EXPECT_EQ(available(), std::nullopt);
  limit(folder / "a/b", "max\n");
  EXPECT_EQ(available(), std::nullopt);
  limit(folder / "a/b", "1000\n");
  EXPECT_EQ(available(), 900U);
  limit(folder / "a", "700\n");
  EXPECT_EQ(available(), 600U);
  limit(folder.path(), "500\n");
  EXPECT_EQ(available(), 400U);
  EXPECT_EQ(available_in_groups("0::/\n", folder.path()), 400U);
  // A limit of an outer group does not raise that of an inner group.
  limit(folder / "a/b", "300\n");
  EXPECT_EQ(available(), 200U);
}

TEST(SystemMemory, first_version_of_groups_has_its_own_folder) {
  const ht::testing::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "memory/box");
  ht::testing::write_file(folder / "memory" / "memory.limit_in_bytes", "500\n");
  ht::testing::write_file(folder / "memory" / "memory.usage_in_bytes", "100\n");
  EXPECT_EQ(available_in_groups("4:memory:/box\n0::/\n", folder.path()), 400U);
}

TEST(SystemMemory, available_memory_is_positive) {
  const auto bytes = system_port().available_memory();
  ASSERT_TRUE(bytes);
  EXPECT_GT(*bytes, 0U);
}

TEST(SystemMemory, peak_grows_with_touched_memory) {
  const auto before = system_port().peak_memory().value();
  const std::vector<char> memory(before + (std::size_t{8} << 20), 1);
  EXPECT_GE(system_port().peak_memory().value(), before + memory.size() / 2);
}

}  // namespace
}  // namespace ht::io::system_memory_test
