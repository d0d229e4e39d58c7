#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "format/json/plain_json.hpp"
#include "format/safetensors/safetensors_header.hpp"
#include "format/safetensors/test_file.hpp"

namespace ht::format_safetensors::safetensors_plain_test {
namespace {

bool is_plain(std::string_view text) { return read_plain_header(text, {}).has_value(); }

// Expects the same members from the JSON parser for a text that `read_plain_header` accepts.
void expect_readers_agree(std::string_view text) {
  const auto plain = read_plain_header(text, {});
  if (!plain) return;
  const auto by_json = read_json_header(bytes_of(text), {}, {});
  ASSERT_TRUE(by_json) << text << "\n" << to_string(by_json.error());
  EXPECT_TRUE(testing::same_members(*plain, *by_json)) << text;
}

TEST(SafetensorsPlain, canonical_spelling_is_read_directly) {
  for (const std::string_view text :
       {R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})",
        R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}    )",
        R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]}})",
        R"({"__metadata__":{},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
        R"({"":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}})",
        R"({"model.layers.0.mlp.up_proj.weight":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},)"
        R"("model.layers.1.mlp.up_proj.weight":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}})"}) {
    EXPECT_TRUE(is_plain(text)) << text;
    expect_readers_agree(text);
  }
}

TEST(SafetensorsPlain, other_spellings_are_read_by_the_json_parser) {
  for (const std::string_view text :
       {"",
        " ",
        "{",
        "{}",
        R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})"
        "x",
        R"( {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
        R"({"a": {"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
        R"({"a":{"shape":[1],"dtype":"U8","data_offsets":[0,1]}})",
        R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":0}})",
        R"({"a":{"dtype":"U9","shape":[1],"data_offsets":[0,1]}})",
        R"({"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}})",
        R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})",
        R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})",
        R"({"a":{"dtype":"U8","shape":[1,],"data_offsets":[0,1]}})",
        R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})",
        R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616]}})",
        R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})",
        R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})",
        R"({"a\u0062":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
        "{\"a\tb\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"\xC3\xA9\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        "{\"a\xFF\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
        R"({"__metadata__":null,"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
        R"({"__metadata__":{"a":1},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
        R"({"__metadata__":{},"__metadata__":{}})",
        R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},})",
        R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})"}) {
    EXPECT_FALSE(is_plain(text)) << text;
  }
}

TEST(SafetensorsPlain, a_special_character_is_found_at_every_position_of_a_name) {
  for (std::size_t length = 1; length < 20; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      for (int code = 0; code < 256; ++code) {
        std::string name(length, 'x');
        name[at] = static_cast<char>(code);
        json::PlainReader reader(name);
        EXPECT_FALSE(reader.string() && code != '"') << "a string without an end";
        const auto closed = name + "\" more text";
        json::PlainReader other(closed);
        const bool is_special = code < 0x20 || code >= 0x80 || code == '\\';
        const auto read = other.string();
        ASSERT_EQ(read.has_value(), !is_special) << length << " " << at << " " << code;
        if (read) {
          EXPECT_EQ(*read, code == '"' ? name.substr(0, at) : name);
        }
      }
    }
  }
}

RC_GTEST_PROP(SafetensorsPlain, readers_agree_on_any_variation, ()) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t end = 0;
  for (int tensor = *rc::gen::inRange(1, 4); tensor > 0; --tensor) {
    const auto rows = *rc::gen::inRange<std::uint64_t>(0, 70'000);
    text += R"(,"layers.)" + std::to_string(tensor) + R"(.weight":{"dtype":"F32","shape":[)" +
            std::to_string(rows) + R"(,2],"data_offsets":[)" + std::to_string(end) + ",";
    end += rows * 8;
    text += std::to_string(end) + "]}";
  }
  text += "}";
  RC_ASSERT(is_plain(text));
  constexpr std::string_view letters = "0123456789 ,[]{}:\"\\-+.eF";
  for (int changes = *rc::gen::inRange(0, 3); changes > 0; --changes) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const char letter = letters[*rc::gen::inRange<std::size_t>(0, letters.size())];
    switch (*rc::gen::inRange(0, 3)) {
      case 0: text[at] = letter; break;
      case 1: text.insert(at, 1, letter); break;
      default: text.erase(at, 1); break;
    }
  }
  expect_readers_agree(text);
}

}  // namespace
}  // namespace ht::format_safetensors::safetensors_plain_test
