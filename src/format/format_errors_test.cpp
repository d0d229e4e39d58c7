#include "format/format_errors.hpp"

#include <gtest/gtest.h>

#include <array>
#include <htensor/dtype/dtypes.hpp>

namespace ht::format_errors_test {
namespace {

constexpr std::array<std::int64_t, 2> dims{2, 3};

Entry plain() { return {.name = "w", .dtype = F32::tag, .dims = dims, .bytes = 24}; }

void expect_lost(const Entry& entry, std::string_view rule) {
  const auto checked = check_plain(entry, "safetensors");
  ASSERT_FALSE(checked) << rule;
  EXPECT_EQ(checked.error().code(), ErrorCode::would_lose);
  EXPECT_EQ(checked.error().rule(), rule);
  EXPECT_EQ(checked.error().tensor(), "w");
  EXPECT_NE(checked.error().message().find("safetensors"), std::string_view::npos);
  EXPECT_FALSE(checked.error().hint().empty());
}

TEST(WouldLose, plain_tensors_are_accepted) { EXPECT_TRUE(check_plain(plain(), "safetensors")); }

TEST(WouldLose, format_carries_the_encoding) {
  Entry entry = plain();
  entry.dtype = DTypeTag::invalid;
  entry.encoding = find_encoding("Q4_0")->tag;
  expect_lost(entry, "format_carries_the_encoding");
}

TEST(WouldLose, format_carries_untyped_bytes) {
  Entry entry = plain();
  entry.dtype = DTypeTag::invalid;
  expect_lost(entry, "format_carries_untyped_bytes");
}

TEST(WouldLose, format_carries_the_order) {
  Entry entry = plain();
  entry.order = ElementOrder::column_major;
  expect_lost(entry, "format_carries_the_order");
  entry.dims = std::span(dims).first(1);  // one dimension has the same bytes in both orders
  EXPECT_TRUE(check_plain(entry, "safetensors"));
}

TEST(WouldLose, format_carries_the_byte_order) {
  Entry entry = plain();
  entry.byte_order = ByteOrder::big;
  expect_lost(entry, "format_carries_the_byte_order");
}

TEST(WouldLose, format_carries_the_note) {
  Entry entry = plain();
  entry.note = "x";
  expect_lost(entry, "format_carries_the_note");
}

TEST(WouldLose, format_carries_metadata) {
  CatalogBuilder builder("test");
  EXPECT_TRUE(check_no_metadata(CatalogBuilder("test").build().value(), "ht"));
  EXPECT_TRUE(builder.metadata().add("author", "somebody"));
  const auto checked = check_no_metadata(std::move(builder).build().value(), "ht");
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code(), ErrorCode::would_lose);
  EXPECT_EQ(checked.error().rule(), "format_carries_metadata");
}

}  // namespace
}  // namespace ht::format_errors_test
