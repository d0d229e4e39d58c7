#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/format/catalog.hpp>
#include <iterator>
#include <ranges>
#include <string>
#include <vector>

namespace ht::catalog_test {
namespace {

Entry entry_named(std::string_view name) {
  return {.name = name, .dtype = F32::tag, .offset = 128, .bytes = 4};
}

Catalog catalog_of(const std::vector<std::string>& names) {
  CatalogBuilder builder("test");
  for (const auto& name : names) EXPECT_TRUE(builder.add(entry_named(name)));
  return std::move(builder).build().value();
}

TEST(Catalog, keeps_entries_in_file_order) {
  CatalogBuilder builder("test");
  const std::array<std::int64_t, 3> dims{2, 3, 4};
  const std::array pattern{std::byte{1}, std::byte{2}};
  const auto other = builder.add_file("other.bin").value();
  ASSERT_TRUE(builder.add(
      {.name = "b", .dtype = BF16::tag, .dims = dims, .file = other, .offset = 256, .bytes = 48}));
  ASSERT_TRUE(builder.add(entry_named("a")));
  ASSERT_TRUE(builder.add({.name = "s", .bytes = 10, .splat = pattern, .note = "word for word"}));
  ASSERT_TRUE(builder.add({.name = "q",
                           .encoding = find_encoding("Q4_K")->tag,
                           .dims = dims,
                           .order = ElementOrder::column_major,
                           .byte_order = ByteOrder::big}));
  EXPECT_EQ(builder.size(), 4U);
  EXPECT_EQ(builder[1].name, "a");
  const auto catalog = std::move(builder).build().value();
  EXPECT_EQ(catalog.format(), "test");
  EXPECT_EQ(catalog.files(), (std::vector<std::string>{"", "other.bin"}));
  ASSERT_EQ(catalog.size(), 4U);
  const Entry first = catalog[0];
  EXPECT_EQ(first.name, "b");
  EXPECT_EQ(first.dtype, BF16::tag);
  EXPECT_TRUE(std::ranges::equal(first.dims, dims));
  EXPECT_EQ(first.file, 1U);
  EXPECT_EQ(first.offset, 256U);
  EXPECT_EQ(first.bytes, 48U);
  EXPECT_FALSE(first.is_splat());
  EXPECT_TRUE(first.is_typed());
  EXPECT_EQ(catalog[1].name, "a");
  EXPECT_TRUE(catalog[1].dims.empty());
  EXPECT_TRUE(catalog[1].note.empty());
  EXPECT_TRUE(std::ranges::equal(catalog[2].splat, pattern));
  EXPECT_EQ(catalog[2].bytes, 10U);
  EXPECT_EQ(catalog[2].note, "word for word");
  EXPECT_FALSE(catalog[2].is_typed());
  EXPECT_EQ(find_encoding(catalog[3].encoding)->name, "Q4_K");
  EXPECT_TRUE(catalog[3].is_typed());
  EXPECT_EQ(catalog[3].order, ElementOrder::column_major);
  EXPECT_EQ(catalog[3].byte_order, ByteOrder::big);
}

TEST(Catalog, finds_exactly_the_names_it_has) {
  std::vector<std::string> names;
  for (int i = 0; i < 5000; ++i) names.push_back("blk." + std::to_string(i) + ".weight");
  const auto catalog = catalog_of(names);
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(catalog.find(names[i]), i);
  EXPECT_EQ(catalog.find("blk.5000.weight"), std::nullopt);
  EXPECT_EQ(catalog.find(""), std::nullopt);
}

TEST(Catalog, an_empty_catalog_finds_nothing) {
  const auto catalog = catalog_of({});
  EXPECT_TRUE(catalog.empty());
  EXPECT_EQ(catalog.find("a"), std::nullopt);
}

TEST(Catalog, names_can_be_empty_or_contain_any_byte) {
  const std::string odd("a\0b\n", 4);
  const auto catalog = catalog_of({"", odd});
  EXPECT_EQ(catalog.find(""), 0U);
  EXPECT_EQ(catalog.find(odd), 1U);
  EXPECT_EQ(catalog.find("a"), std::nullopt);
}

TEST(Catalog, names_are_unique) {
  CatalogBuilder builder("test");
  for (const auto* name : {"b", "a", "c", "a"}) ASSERT_TRUE(builder.add(entry_named(name)));
  const auto catalog = std::move(builder).build();
  ASSERT_FALSE(catalog);
  EXPECT_EQ(catalog.error().code(), ErrorCode::duplicate_tensor);
  EXPECT_EQ(catalog.error().rule(), "names_are_unique");
  EXPECT_EQ(catalog.error().tensor(), "a");
}

void expect_refusal(const Entry& entry, ErrorCode code, std::string_view rule) {
  CatalogBuilder builder("test");
  const auto added = builder.add(entry);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code(), code);
  EXPECT_EQ(added.error().rule(), rule);
  EXPECT_EQ(builder.size(), 0U);
}

TEST(Catalog, splat_patterns_have_1_2_4_8_or_16_bytes) {
  const std::vector<std::byte> pattern(300);
  for (const std::size_t size : {3U, 5U, 15U, 17U, 32U, 256U, 300U}) {
    expect_refusal({.name = "s", .bytes = 8, .splat = Bytes(pattern).first(size)}, ErrorCode::size_mismatch,
                   "splat_patterns_have_1_2_4_8_or_16_bytes");
  }
}

TEST(Catalog, splat_bytes_are_multiple_of_pattern) {
  const std::array<std::byte, 16> pattern{};
  for (const std::size_t size : {2U, 4U, 8U, 16U}) {
    expect_refusal({.name = "s", .bytes = 3 * size + 1, .splat = Bytes(pattern).first(size)},
                   ErrorCode::size_mismatch, "splat_bytes_are_multiple_of_pattern");
  }
}

TEST(Catalog, entry_is_plain_if_its_bytes_are_row_major_and_little_endian) {
  const std::array<std::int64_t, 2> dims{2, 3};
  const std::array pattern{std::byte{1}, std::byte{2}};
  const Entry plain{.dims = dims};
  Entry column_major{.dims = dims, .order = ElementOrder::column_major};
  EXPECT_TRUE(plain.is_row_major() && plain.is_plain(16));
  EXPECT_FALSE(column_major.is_row_major() || column_major.is_plain(16));
  column_major.dims = std::span(dims).first(1);
  EXPECT_TRUE(column_major.is_row_major() && column_major.is_plain(16));
  const Entry big_endian{.dims = dims, .byte_order = ByteOrder::big};
  EXPECT_FALSE(big_endian.is_plain(16));
  EXPECT_TRUE(big_endian.is_plain(8));
  EXPECT_FALSE(big_endian.is_plain(0)) << "blocks";
  EXPECT_FALSE((Entry{.dims = dims, .splat = pattern}).is_plain(16));
}

TEST(Catalog, is_a_range_of_entries) {
  const auto catalog = catalog_of({"a", "b", "c"});
  static_assert(std::ranges::random_access_range<const Catalog>);
  std::vector<std::string_view> names;
  for (const Entry& entry : catalog) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_EQ(catalog.end() - catalog.begin(), 3);
  EXPECT_EQ((*(catalog.begin() + 2)).name, "c");
  EXPECT_EQ(catalog.begin()[1].name, "b");
  EXPECT_EQ(std::ranges::find(catalog, "b", &Entry::name) - catalog.begin(), 1);
  EXPECT_EQ((*std::ranges::prev(catalog.end())).name, "c");
}

TEST(Catalog, entry_file_is_in_the_file_list) {
  expect_refusal({.name = "t", .file = 1}, ErrorCode::out_of_bounds, "entry_file_is_in_the_file_list");
}

TEST(Catalog, dims_are_not_negative_in_a_catalog) {
  const std::array<std::int64_t, 2> dims{2, -1};
  expect_refusal({.name = "t", .dims = dims}, ErrorCode::bad_shape, "dims_are_not_negative");
}

TEST(Catalog, message_about_an_entry_is_utf8) {
  CatalogBuilder builder("test");
  const auto added = builder.add({.name = "t\xff", .file = 1});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().message(),
            "tensor 't\uFFFD': file number 1 is out of range; the catalog has 1 files");
}

TEST(Catalog, copies_are_independent) {
  auto catalog = catalog_of({"a"});
  const Catalog copy = catalog;
  catalog = catalog_of({"b"});
  EXPECT_EQ(copy.find("a"), 0U);
  EXPECT_EQ(catalog.find("a"), std::nullopt);
}

TEST(Catalog, memory_is_52_to_100_bytes_per_tensor) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("blk." + std::to_string(i) + ".weight");
  const auto bytes = catalog_of(names).memory_bytes();
  EXPECT_GT(bytes, 1000U * (32 + 8 + 12));
  EXPECT_LT(bytes, 1000U * 100);
}

TEST(Catalog, memory_includes_the_names_of_files) {
  CatalogBuilder builder("test");
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(builder.add_file(std::string(100, 'x') + std::to_string(i)));
  EXPECT_GE(std::move(builder).build().value().memory_bytes(), 1000U * (sizeof(std::string) + 100));
}

}  // namespace
}  // namespace ht::catalog_test
