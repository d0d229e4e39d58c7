#include "format/catalog/name_store.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ht::name_store_test {
namespace {

detail::NameStore store_of(int count) {
  detail::NameStore store;
  for (int i = 0; i < count; ++i) store.add("blk." + std::to_string(i));
  return store;
}

TEST(NameStore, keeps_the_order_and_finds_each_name) {
  // Sizes around multiples of 16, the number of names that are hashed together.
  for (const int count : {0, 1, 2, 15, 16, 17, 33, 1000}) {
    auto store = store_of(count);
    EXPECT_EQ(store.build_index(), std::nullopt);
    ASSERT_EQ(store.size(), static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < store.size(); ++i) {
      EXPECT_EQ(store[i], "blk." + std::to_string(i));
      EXPECT_EQ(store.find(store[i]), i);
    }
    EXPECT_EQ(store.find("blk." + std::to_string(count)), std::nullopt);
    EXPECT_EQ(store.find(""), std::nullopt);
  }
}

TEST(NameStore, reports_the_first_duplicate_name) {
  for (const int count : {1, 16, 100}) {
    auto store = store_of(count);
    store.add("blk.0");
    store.add("blk.0");
    EXPECT_EQ(store.build_index(), static_cast<std::size_t>(count));
  }
}

TEST(NameStore, finds_nothing_before_it_has_an_index) { EXPECT_EQ(store_of(3).find("blk.1"), std::nullopt); }

TEST(NameStore, names_with_equal_concatenation_are_different) {
  detail::NameStore a;
  a.add("ab");
  a.add("c");
  detail::NameStore b;
  b.add("a");
  b.add("bc");
  EXPECT_FALSE(a == b);
  EXPECT_TRUE(a == a);
  ASSERT_EQ(a.build_index(), std::nullopt);
  EXPECT_EQ(a.find("a"), std::nullopt);
  EXPECT_EQ(a.find("abc"), std::nullopt);
}

TEST(NameStore, names_end_with_nul) {
  detail::NameStore store;
  for (const std::string_view name : {"a", "", "long.name"}) store.add(name);
  store.add(std::string_view("a\0b", 3));
  EXPECT_EQ(store.build_index(), std::nullopt);
  for (std::size_t i = 0; i < store.size(); ++i) EXPECT_EQ(store[i].data()[store[i].size()], '\0');
  EXPECT_EQ(store.find(std::string_view("a\0b", 3)), 3U);
  EXPECT_EQ(store[1], "");
}

TEST(NameStore, counts_its_memory) {
  auto store = store_of(100);
  const auto before = store.memory_bytes();
  ASSERT_EQ(store.build_index(), std::nullopt);
  EXPECT_GE(store.memory_bytes(), before + 150 * sizeof(std::uint64_t));
  store.trim();
  EXPECT_LE(store.memory_bytes(), 100U * (6 + 8) * 2 + 151 * 8 + 32);
}

}  // namespace
}  // namespace ht::name_store_test
