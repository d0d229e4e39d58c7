#include <gtest/gtest.h>

#include <htensor/base/confined_path.hpp>

namespace ht {
namespace {

TEST(ConfinedPath, stays_below_its_folder) {
  for (const auto* path :
       {"a", "a.safetensors", "a/b", "./a", "a/./b", "a//b", "..a", "a..", "a...b/c", "ü", " "}) {
    EXPECT_EQ(path_fault(path), "") << path;
  }
}

TEST(ConfinedPath, nothing_leads_out) {
  for (const auto* path : {"", "/", "/a", "//a", "..", "../a", "a/..", "a/../b", "a/../../b", "./..", "a\\b",
                           "..\\a", "C:\\a", ".", "a/", "a/.", "\xFF"}) {
    EXPECT_NE(path_fault(path), "") << path;
  }
  EXPECT_NE(path_fault(std::string_view("a\0b", 3)), "");
  EXPECT_EQ(path_fault("/etc/passwd"), "is absolute");
  EXPECT_EQ(path_fault("a/../../b"), "leads out of the folder");
}

}  // namespace
}  // namespace ht
