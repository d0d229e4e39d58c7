#include <gtest/gtest.h>

#include <cmath>
#include <htensor/format/metadata.hpp>

namespace ht::metadata_edit_test {
namespace {

Metadata sample_metadata() {
  Metadata metadata;
  EXPECT_TRUE(metadata.add("a", "text"));
  EXPECT_TRUE(metadata.add("b", std::uint8_t{7}));
  EXPECT_TRUE(metadata.add("c", 1.5F));
  EXPECT_TRUE(metadata.index());
  return metadata;
}

std::vector<std::string> keys_of(const Metadata& metadata) {
  std::vector<std::string> keys;
  keys.reserve(metadata.size());
  for (const auto& item : metadata) keys.emplace_back(item.key);
  return keys;
}

Result<Metadata> after(const std::vector<MetadataEdit>& edits) {
  return apply_edits(sample_metadata(), edits);
}

// Sets a key to this text and returns the bytes of its value.
Result<std::vector<std::byte>> value_of_text(const std::string& text, const MetadataEdit::Type& type) {
  const auto metadata = apply_edits({}, std::vector<MetadataEdit>{{.key = "k", .value = text, .type = type}});
  if (!metadata) return fail(metadata.error());
  const auto value = metadata->find("k").value();
  EXPECT_EQ(value.type(), type.type);
  return std::vector<std::byte>(value.bytes().begin(), value.bytes().end());
}

std::vector<std::byte> array_of(const std::string& text, MetaType type) {
  return value_of_text(text, {MetaType::array, type}).value();
}

TEST(MetadataEdit, keeps_the_position_and_the_type_of_a_key) {
  const auto metadata = after({{.key = "b", .value = "200"}, {.key = "c", .value = "-0.1"}}).value();
  EXPECT_EQ(keys_of(metadata), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(metadata.find("b")->type(), MetaType::u8);
  EXPECT_EQ(metadata.find("b")->unsigned_integer(), 200U);
  EXPECT_EQ(metadata.find("c")->real(), static_cast<double>(-0.1F));
  EXPECT_EQ(metadata.find("a")->text(), "text");
}

TEST(MetadataEdit, appends_new_keys_as_strings_by_default) {
  const auto metadata = after({{.key = "n", .value = "5"},
                               {.key = "m", .value = "5", .type = MetadataEdit::Type{MetaType::i64}},
                               {.key = "a", .value = "true", .type = MetadataEdit::Type{MetaType::boolean}}})
                            .value();
  EXPECT_EQ(keys_of(metadata), (std::vector<std::string>{"a", "b", "c", "n", "m"}));
  EXPECT_EQ(metadata.find("n")->text(), "5");
  EXPECT_EQ(metadata.find("m")->type(), MetaType::i64);
  EXPECT_EQ(metadata.find("a")->boolean(), true);
}

TEST(MetadataEdit, takes_exact_values) {
  const auto values = sample_metadata();
  const auto metadata = after({{.key = "a", .stored_value = values.find("c")},
                               {.key = "n", .stored_value = values.find("b")},
                               {.key = "b", .value = "1", .stored_value = values.find("a")}})
                            .value();
  EXPECT_EQ(keys_of(metadata), (std::vector<std::string>{"a", "b", "c", "n"}));
  EXPECT_EQ(metadata.find("a")->real(), 1.5);
  EXPECT_EQ(metadata.find("n")->type(), MetaType::u8);
  EXPECT_EQ(metadata.find("b")->text(), "text");
}

TEST(MetadataEdit, applies_edits_in_order) {
  EXPECT_EQ(after({{.key = "a", .value = "1"}, {.key = "a", .value = "2"}})->find("a")->text(), "2");
  EXPECT_EQ(after({{.key = "n", .value = "1"}, {.key = "n"}}), sample_metadata());
  EXPECT_EQ(keys_of(after({{.key = "a"}, {.key = "a", .value = "back"}}).value()),
            (std::vector<std::string>{"b", "c", "a"}));
  EXPECT_EQ(after({}), sample_metadata());
}

TEST(MetadataEdit, metadata_key_exists) {
  for (const auto& edits : {std::vector<MetadataEdit>{{.key = "no"}}, {{.key = "a"}, {.key = "a"}}}) {
    const auto refused = after(edits);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::not_found);
    EXPECT_EQ(refused.error().rule(), "metadata_key_exists");
  }
}

TEST(MetadataEdit, value_matches_its_type) {
  const std::vector<std::pair<std::string, MetadataEdit::Type>> bad{
      {"256", {MetaType::u8}},
      {"-1", {MetaType::u64}},
      {"128", {MetaType::i8}},
      {"1.0", {MetaType::i32}},
      {"", {MetaType::u32}},
      {" 1", {MetaType::u32}},
      {"+1", {MetaType::i16}},
      {"0x10", {MetaType::u16}},
      {"1e39", {MetaType::f32}},
      {"one", {MetaType::f64}},
      {"1", {MetaType::boolean}},
      {"True", {MetaType::boolean}},
      {"1", {MetaType::array, MetaType::u8}},
      {"[1, 256]", {MetaType::array, MetaType::u8}},
      {"[1, \"2\"]", {MetaType::array, MetaType::u8}},
      {"[1", {MetaType::array, MetaType::u8}},
      {"[1],\"a\":[2]", {MetaType::array, MetaType::u8}},
      {"[1]},{\"\":[2]", {MetaType::array, MetaType::u8}},
      {"[01]", {MetaType::array, MetaType::u8}},
      {"[1]", {MetaType::array, MetaType::string}},
      {"[true]", {MetaType::array, MetaType::i32}},
      {"[1]", {MetaType::array, MetaType::boolean}},
      {"[[1]]", {MetaType::array, MetaType::u8}},
      {"[[1]]", {MetaType::array, MetaType::array}},
      {"[null]", {MetaType::array, MetaType::f32}},
      {R"(["1.5"])", {MetaType::array, MetaType::f32}},
      {R"([1.5, "1.5"])", {MetaType::array, MetaType::f64}},
      {R"(["nan"])", {MetaType::array, MetaType::f64}},
      {R"(["inf"])", {MetaType::array, MetaType::f32}},
      {R"(["+Infinity"])", {MetaType::array, MetaType::f64}},
      {R"([""])", {MetaType::array, MetaType::f64}},
      {"", {MetaType::array, MetaType::f32}},
  };
  for (const auto& [text, type] : bad) {
    const auto refused = value_of_text(text, type);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code(), ErrorCode::dtype_mismatch);
    EXPECT_EQ(refused.error().rule(), "value_matches_its_type") << text;
  }
  EXPECT_EQ(after({{.key = "b", .value = "text"}}).error().rule(), "value_matches_its_type");
}

TEST(MetadataEdit, reads_numbers_of_every_type) {
  const auto number = [](const std::string& text, MetaType type) {
    const auto bytes = value_of_text(text, {type}).value();
    EXPECT_EQ(bytes.size(), fixed_bytes(type));
    const MetaValue value(type, bytes);
    return value.real().value_or(static_cast<double>(value.integer().value_or(-1)));
  };
  for (const auto type : {MetaType::u8, MetaType::i8, MetaType::u16, MetaType::i16, MetaType::u32,
                          MetaType::i32, MetaType::u64, MetaType::i64, MetaType::f32, MetaType::f64}) {
    EXPECT_EQ(number("100", type), 100) << to_string(type);
  }
  EXPECT_EQ(number("-9223372036854775808", MetaType::i64), -0x1p63);
  EXPECT_EQ(MetaValue(MetaType::u64, value_of_text("18446744073709551615", {MetaType::u64}).value())
                .unsigned_integer(),
            UINT64_MAX);
  EXPECT_TRUE(std::isnan(number("NaN", MetaType::f32)));
  EXPECT_EQ(number("-Infinity", MetaType::f64), -INFINITY);
}

TEST(MetadataEdit, reads_lists) {
  const auto numbers = array_of(" [1, -2 ,3\n] ", MetaType::i16);
  const MetaValue::Array three = MetaValue(MetaType::array, numbers).array().value();
  EXPECT_EQ(three.size(), 3U);
  EXPECT_EQ((*++three.begin()).integer(), -2);
  const auto texts = array_of(R"(["a", "", "\u00e9\"", "]"])", MetaType::string);
  const MetaValue::Array words = MetaValue(MetaType::array, texts).array().value();
  std::vector<std::string_view> read;
  for (const auto& word : words) read.push_back(word.text().value());
  EXPECT_EQ(read, (std::vector<std::string_view>{"a", "", "\u00e9\"", "]"}));
  const auto booleans = array_of("[true,false]", MetaType::boolean);
  EXPECT_EQ((*MetaValue(MetaType::array, booleans).array()->begin()).boolean(), true);
  const auto reals = array_of(R"([0.1, "NaN", "Infinity", 1e3])", MetaType::f32);
  EXPECT_EQ((*MetaValue(MetaType::array, reals).array()->begin()).real(), static_cast<double>(0.1F));
  EXPECT_EQ(MetaValue(MetaType::array, array_of("[]", MetaType::u8)).array()->size(), 0U);
}

TEST(MetadataEdit, types_have_names) {
  EXPECT_EQ(value_type_named("u32"), (MetadataEdit::Type{MetaType::u32}));
  EXPECT_EQ(value_type_named("bool"), (MetadataEdit::Type{MetaType::boolean}));
  EXPECT_EQ(value_type_named("array:f64"), (MetadataEdit::Type{MetaType::array, MetaType::f64}));
  for (const auto* const bad : {"", "array", "array:", "array:array", "u33", "U32"}) {
    EXPECT_FALSE(value_type_named(bad)) << bad;
  }
}

}  // namespace
}  // namespace ht::metadata_edit_test
