#include <gtest/gtest.h>

#include <array>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/format/catalog.hpp>
#include <string>
#include <vector>

namespace ht {
namespace {

Entry entry_named(std::string_view name) {
  return {.name = name, .dtype = F32::tag, .offset = 128, .bytes = 4};
}

TEST(Catalog, keeps_what_it_is_given_in_file_order) {
  Catalog catalog;
  const std::array<std::int64_t, 3> dims{2, 3, 4};
  ASSERT_TRUE(
      catalog.add({.name = "b", .dtype = BF16::tag, .dims = dims, .file = 7, .offset = 256, .bytes = 48}));
  ASSERT_TRUE(catalog.add(entry_named("a")));
  ASSERT_EQ(catalog.size(), 2U);
  const Entry first = catalog[0];
  EXPECT_EQ(first.name, "b");
  EXPECT_EQ(first.dtype, BF16::tag);
  EXPECT_TRUE(std::ranges::equal(first.dims, dims));
  EXPECT_EQ(first.file, 7U);
  EXPECT_EQ(first.offset, 256U);
  EXPECT_EQ(first.bytes, 48U);
  EXPECT_EQ(catalog[1].name, "a");
  EXPECT_TRUE(catalog[1].dims.empty());
}

TEST(Catalog, finds_every_name_among_many_and_no_other) {
  Catalog catalog;
  constexpr int count = 5000;
  for (int i = 0; i < count; ++i)
    ASSERT_TRUE(catalog.add(entry_named("blk." + std::to_string(i) + ".weight")));
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(catalog.find("blk." + std::to_string(i) + ".weight"), static_cast<std::size_t>(i));
  }
  EXPECT_EQ(catalog.find("blk.5000.weight"), std::nullopt);
  EXPECT_EQ(catalog.find(""), std::nullopt);
}

TEST(Catalog, empty_one_finds_nothing) {
  const Catalog catalog;
  EXPECT_TRUE(catalog.empty());
  EXPECT_EQ(catalog.find("a"), std::nullopt);
}

TEST(Catalog, names_may_be_empty_or_hold_any_byte) {
  Catalog catalog;
  const std::string odd("a\0b\n", 4);
  ASSERT_TRUE(catalog.add(entry_named("")));
  ASSERT_TRUE(catalog.add(entry_named(odd)));
  EXPECT_EQ(catalog.find(""), 0U);
  EXPECT_EQ(catalog.find(odd), 1U);
  EXPECT_EQ(catalog.find("a"), std::nullopt);
}

TEST(Catalog, names_are_unique) {
  Catalog catalog;
  ASSERT_TRUE(catalog.add(entry_named("a")));
  const auto again = catalog.add(entry_named("a"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), ErrorCode::duplicate_tensor);
  EXPECT_EQ(again.error().rule(), "names_are_unique");
  EXPECT_EQ(again.error().tensor(), "a");
  EXPECT_EQ(catalog.size(), 1U);
}

TEST(Catalog, catalog_can_count_its_entries) {
  Catalog catalog;
  // The length is refused before a byte of it is looked at.
  const auto added = catalog.add(entry_named(std::string_view("a", std::size_t{1} << 32)));
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), ErrorCode::size_overflow);
  EXPECT_EQ(added.error().rule(), "catalog_can_count_its_entries");
}

TEST(Catalog, copies_are_independent) {
  Catalog catalog;
  ASSERT_TRUE(catalog.add(entry_named("a")));
  Catalog copy = catalog;
  ASSERT_TRUE(copy.add(entry_named("b")));
  EXPECT_EQ(catalog.find("b"), std::nullopt);
  EXPECT_EQ(copy.find("a"), 0U);
}

}  // namespace
}  // namespace ht
