#include <gtest/gtest.h>

#include <htensor/base/confined_path.hpp>

namespace ht {
namespace {

TEST(ConfinedPath, stays_below_its_folder) {
  for (const auto* path :
       {"a", "a.safetensors", "a/b", "./a", "a/./b", "a//b", "..a", "a..", "a...b/c", "ü", " "}) {
    EXPECT_TRUE(is_confined(path)) << path;
  }
}

TEST(ConfinedPath, nothing_leads_out) {
  for (const auto* path : {"", "/", "/a", "//a", "..", "../a", "a/..", "a/../b", "a/../../b", "./..", "a\\b",
                           "..\\a", "C:\\a", ".", "a/", "a/.", "\xFF"}) {
    EXPECT_FALSE(is_confined(path)) << path;
  }
  EXPECT_FALSE(is_confined(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace ht
