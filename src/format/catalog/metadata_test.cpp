#include <gtest/gtest.h>

#include <htensor/format/metadata.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace ht::metadata_test {
namespace {

static_assert(std::forward_iterator<MetaValue::Array::Iterator>);

template <class T>
void append(std::vector<std::byte>& out, T value) {
  out.resize(out.size() + sizeof(T));
  store_le(MutableBytes(out).last(sizeof(T)), value);
}

void append_text(std::vector<std::byte>& out, std::string_view text) {
  append(out, static_cast<std::uint64_t>(text.size()));
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
}

void append_array_header(std::vector<std::byte>& out, MetaType type, std::uint64_t count) {
  append(out, static_cast<std::uint32_t>(type));
  append(out, count);
}

template <class T>
MetaValue scalar(MetaType type, T value, std::vector<std::byte>& keep) {
  keep.clear();
  append(keep, value);
  return {type, keep};
}

TEST(Metadata, keeps_strings_in_file_order_and_finds_them) {
  Metadata metadata;
  EXPECT_TRUE(metadata.add("format", "pt"));
  EXPECT_TRUE(metadata.add("author", ""));
  ASSERT_TRUE(metadata.index());
  ASSERT_EQ(metadata.size(), 2U);
  EXPECT_EQ(metadata[0].key, "format");
  EXPECT_EQ(metadata[0].value.text(), "pt");
  EXPECT_EQ(metadata.find("author")->text(), "");
  EXPECT_FALSE(metadata.find("nobody"));
}

TEST(Metadata, is_a_range_of_items) {
  Metadata metadata;
  ASSERT_TRUE(metadata.add("a", "1") && metadata.add("b", "2"));
  std::string all;
  for (const auto& [key, value] : metadata) all += std::string(key) + "=" + std::string(*value.text()) + " ";
  EXPECT_EQ(all, "a=1 b=2 ");
}

TEST(Metadata, numbers_are_added_as_their_types) {
  Metadata metadata;
  EXPECT_TRUE(metadata.add("whole", std::uint32_t{7}));
  EXPECT_TRUE(metadata.add("signed", std::int64_t{-7}));
  EXPECT_TRUE(metadata.add("real", 0.5F));
  EXPECT_TRUE(metadata.add("flag", true));
  ASSERT_TRUE(metadata.index());
  EXPECT_EQ(metadata.find("whole")->type(), MetaType::u32);
  EXPECT_EQ(metadata.find("whole")->unsigned_integer(), 7U);
  EXPECT_EQ(metadata.find("signed")->type(), MetaType::i64);
  EXPECT_EQ(metadata.find("signed")->integer(), -7);
  EXPECT_EQ(metadata.find("real")->type(), MetaType::f32);
  EXPECT_EQ(metadata.find("real")->real(), 0.5);
  EXPECT_EQ(metadata.find("flag")->boolean(), true);
  static_assert(meta_type_of<std::uint8_t> == MetaType::u8 && meta_type_of<std::int16_t> == MetaType::i16);
  static_assert(meta_type_of<double> == MetaType::f64 && meta_type_of<std::uint64_t> == MetaType::u64);
}

TEST(Metadata, uses_at_most_the_reserved_memory) {
  Metadata metadata;
  EXPECT_TRUE(metadata.reserve(1, 3, Metadata::bytes_of_text("abc")));
  const auto before = metadata.memory_bytes();
  EXPECT_TRUE(metadata.add("key", "abc"));
  EXPECT_EQ(metadata.memory_bytes(), before);
}

TEST(Metadata, refers_to_values_in_the_memory_of_their_owner) {
  auto owner = std::make_shared<std::vector<std::byte>>();
  append_text(*owner, "a long text");
  const Bytes bytes = *owner;
  Metadata metadata;
  EXPECT_TRUE(metadata.add("first", std::uint8_t{1}));
  EXPECT_TRUE(metadata.add("shared", MetaValue(MetaType::string, bytes), owner));
  EXPECT_TRUE(metadata.add("last", "text"));
  const std::weak_ptr<const void> watched = owner;
  owner.reset();
  ASSERT_TRUE(metadata.index());
  const Metadata copy = metadata;
  metadata = {};
  ASSERT_EQ(copy.size(), 3U);
  EXPECT_EQ(copy[0].value.unsigned_integer(), 1U);
  EXPECT_EQ(copy.find("shared")->text(), "a long text");
  EXPECT_EQ(copy.find("shared")->bytes().data(), bytes.data());
  EXPECT_EQ(copy[2].value.text(), "text");
  EXPECT_GE(copy.memory_bytes(), bytes.size());
  EXPECT_FALSE(watched.expired());
}

TEST(Metadata, is_equal_regardless_of_value_storage) {
  auto owner = std::make_shared<std::vector<std::byte>>();
  append_text(*owner, "text");
  Metadata shared;
  EXPECT_TRUE(shared.add("key", MetaValue(MetaType::string, *owner), owner));
  Metadata copied;
  EXPECT_TRUE(copied.add("key", "text"));
  EXPECT_EQ(shared, copied);
  Metadata other;
  EXPECT_TRUE(other.add("key", "texx"));
  EXPECT_NE(shared, other);
}

TEST(Metadata, numbers_keep_their_types) {
  std::vector<std::byte> keep;
  EXPECT_EQ(scalar(MetaType::u8, std::uint8_t{200}, keep).integer(), 200);
  EXPECT_EQ(scalar(MetaType::i8, std::int8_t{-3}, keep).integer(), -3);
  EXPECT_EQ(scalar(MetaType::i8, std::int8_t{-3}, keep).unsigned_integer(), std::nullopt);
  EXPECT_EQ(scalar(MetaType::u16, std::uint16_t{60'000}, keep).unsigned_integer(), 60'000U);
  EXPECT_EQ(scalar(MetaType::i16, std::int16_t{-3}, keep).integer(), -3);
  EXPECT_EQ(scalar(MetaType::u32, std::uint32_t{4'000'000'000}, keep).integer(), 4'000'000'000);
  EXPECT_EQ(scalar(MetaType::i32, std::int32_t{7}, keep).unsigned_integer(), 7U);
  EXPECT_EQ(scalar(MetaType::u64, UINT64_MAX, keep).unsigned_integer(), UINT64_MAX);
  EXPECT_EQ(scalar(MetaType::u64, UINT64_MAX, keep).integer(), std::nullopt);
  EXPECT_EQ(scalar(MetaType::i64, INT64_MIN, keep).integer(), INT64_MIN);
  EXPECT_EQ(scalar(MetaType::f32, 1.5F, keep).real(), 1.5);
  EXPECT_EQ(scalar(MetaType::f64, 1e300, keep).real(), 1e300);
  EXPECT_EQ(scalar(MetaType::boolean, std::uint8_t{1}, keep).boolean(), true);
  EXPECT_EQ(scalar(MetaType::boolean, std::uint8_t{0}, keep).boolean(), false);
}

TEST(Metadata, a_mismatched_type_returns_nullopt) {
  std::vector<std::byte> keep;
  const auto number = scalar(MetaType::u32, std::uint32_t{1}, keep);
  EXPECT_FALSE(number.text());
  EXPECT_FALSE(number.boolean());
  EXPECT_FALSE(number.real());
  EXPECT_FALSE(number.array());
  std::vector<std::byte> other;
  EXPECT_FALSE(scalar(MetaType::f32, 1.0F, other).integer());
  EXPECT_FALSE(scalar(MetaType::f32, 1.0F, other).unsigned_integer());
}

TEST(Metadata, arrays_are_read_in_sequence) {
  std::vector<std::byte> bytes;
  append_array_header(bytes, MetaType::string, 3);
  for (const auto* token : {"<s>", "", "hello"}) append_text(bytes, token);
  Metadata metadata;
  EXPECT_TRUE(metadata.add("tokens", MetaValue(MetaType::array, bytes)));
  const auto array = metadata[0].value.array().value();
  EXPECT_EQ(array.element_type(), MetaType::string);
  EXPECT_EQ(array.size(), 3U);
  std::vector<std::string> seen;
  for (const MetaValue value : array) seen.emplace_back(value.text().value());
  EXPECT_EQ(seen, (std::vector<std::string>{"<s>", "", "hello"}));
}

TEST(Metadata, arrays_of_arrays_are_read) {
  std::vector<std::byte> bytes;
  append_array_header(bytes, MetaType::array, 2);
  append_array_header(bytes, MetaType::u16, 2);
  append(bytes, std::uint16_t{1});
  append(bytes, std::uint16_t{2});
  append_array_header(bytes, MetaType::string, 1);
  append_text(bytes, "x");
  const auto outer = MetaValue(MetaType::array, bytes).array().value();
  std::vector<std::uint64_t> sizes;
  for (const MetaValue inner : outer) sizes.push_back(inner.array()->size());
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ((*(*++outer.begin()).array()->begin()).text(), "x");
}

TEST(Metadata, metadata_keys_are_unique) {
  Metadata metadata;
  EXPECT_TRUE(metadata.add("a", "1"));
  EXPECT_TRUE(metadata.add("b", "2"));
  EXPECT_TRUE(metadata.add("a", "3"));
  const auto indexed = metadata.index();
  ASSERT_FALSE(indexed);
  EXPECT_EQ(indexed.error().code(), ErrorCode::duplicate_key);
  EXPECT_EQ(indexed.error().rule(), "metadata_keys_are_unique");
  EXPECT_NE(indexed.error().message().find("'a'"), std::string_view::npos);
}

TEST(Metadata, is_equal_by_keys_types_and_values) {
  std::vector<std::byte> keep;
  Metadata a;
  EXPECT_TRUE(a.add("k", scalar(MetaType::u32, std::uint32_t{1}, keep)));
  Metadata b = a;
  EXPECT_EQ(a, b);
  Metadata other_type;
  EXPECT_TRUE(other_type.add("k", scalar(MetaType::i32, std::int32_t{1}, keep)));
  EXPECT_FALSE(a == other_type);
  EXPECT_TRUE(b.add("l", "x"));
  EXPECT_FALSE(a == b);
}

TEST(Metadata, types_have_names_and_sizes) {
  EXPECT_EQ(to_string(MetaType::u8), "u8");
  EXPECT_EQ(to_string(MetaType::boolean), "bool");
  EXPECT_EQ(to_string(MetaType::f64), "f64");
  EXPECT_EQ(fixed_bytes(MetaType::i16), 2U);
  EXPECT_EQ(fixed_bytes(MetaType::string), 0U);
  EXPECT_EQ(fixed_bytes(MetaType::array), 0U);
}

}  // namespace
}  // namespace ht::metadata_test
