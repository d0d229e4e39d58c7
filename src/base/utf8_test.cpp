#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/utf8.hpp"

namespace ht::utf8_test {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text.push_back(static_cast<char>(value));
  return text;
}

// Encodes a code point. The oracle: text is well-formed if and only if it consists of encoded code points.
std::string encoded(unsigned point) {
  const auto tail = [point](int shift) { return static_cast<int>(0x80 | ((point >> shift) & 0x3F)); };
  if (point < 0x80) return bytes({static_cast<int>(point)});
  if (point < 0x800) return bytes({static_cast<int>(0xC0 | (point >> 6)), tail(0)});
  if (point < 0x10000) return bytes({static_cast<int>(0xE0 | (point >> 12)), tail(6), tail(0)});
  return bytes({static_cast<int>(0xF0 | (point >> 18)), tail(12), tail(6), tail(0)});
}

bool is_surrogate(unsigned point) { return point >= 0xD800 && point <= 0xDFFF; }

const std::set<std::string>& short_characters() {
  static const std::set<std::string> all = [] {
    std::set<std::string> characters;
    for (unsigned point = 0; point < 0x10000; ++point) {
      if (!is_surrogate(point)) characters.insert(encoded(point));
    }
    return characters;
  }();
  return all;
}

TEST(Utf8, accepts_every_character) {
  for (unsigned point = 0; point <= 0x10FFFF; ++point) {
    if (!is_surrogate(point)) {
      ASSERT_TRUE(is_utf8(encoded(point))) << std::hex << point;
    }
  }
}

TEST(Utf8, every_single_byte_matches_the_oracle) {
  for (int first = 0; first < 256; ++first) {
    const std::string text = bytes({first});
    const bool expected = short_characters().contains(text);
    EXPECT_EQ(is_utf8(text), expected) << first;
    EXPECT_EQ(to_utf8(text), expected ? text : replacement) << first;
  }
}

TEST(Utf8, every_two_bytes_match_the_oracle) {
  const auto& characters = short_characters();
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = bytes({first, second});
      const bool one = characters.contains(text);
      const bool both = first < 0x80 && second < 0x80;
      ASSERT_EQ(is_utf8(text), one || both) << first << " " << second;
      std::string clean;
      for (const int byte : {first, second}) clean += byte < 0x80 ? bytes({byte}) : std::string(replacement);
      ASSERT_EQ(to_utf8(text), one ? text : clean) << first << " " << second;
    }
  }
}

TEST(Utf8, three_bytes_match_the_oracle) {
  const auto& characters = short_characters();
  // The last byte is tested only at the limits of its range, which does not depend on the other bytes.
  for (int first = 0xC0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const int third : {0x00, 0x7F, 0x80, 0xBF, 0xC0, 0xFF}) {
        const std::string text = bytes({first, second, third});
        const bool one = characters.contains(text);
        const bool two = third < 0x80 && characters.contains(bytes({first, second}));
        ASSERT_EQ(is_utf8(text), one || two) << first << " " << second << " " << third;
      }
    }
  }
}

TEST(Utf8, refuses_overlong_forms) {
  EXPECT_FALSE(is_utf8(bytes({0xC0, 0x80})));
  EXPECT_FALSE(is_utf8(bytes({0xC1, 0xBF})));
  EXPECT_FALSE(is_utf8(bytes({0xE0, 0x80, 0xAF})));
  EXPECT_FALSE(is_utf8(bytes({0xE0, 0x9F, 0xBF})));
  EXPECT_FALSE(is_utf8(bytes({0xF0, 0x80, 0x80, 0xAF})));
  EXPECT_FALSE(is_utf8(bytes({0xF0, 0x8F, 0xBF, 0xBF})));
}

TEST(Utf8, refuses_surrogates) {
  for (unsigned point = 0xD800; point <= 0xDFFF; ++point) ASSERT_FALSE(is_utf8(encoded(point))) << point;
  EXPECT_TRUE(is_utf8(encoded(0xD7FF)));
  EXPECT_TRUE(is_utf8(encoded(0xE000)));
}

TEST(Utf8, refuses_code_points_above_the_maximum) {
  EXPECT_TRUE(is_utf8(encoded(0x10FFFF)));
  for (unsigned point = 0x110000; point < 0x200000; point += 0x1000) {
    ASSERT_FALSE(is_utf8(encoded(point))) << point;
  }
  EXPECT_FALSE(is_utf8(bytes({0xF8, 0x88, 0x80, 0x80, 0x80})));
  EXPECT_FALSE(is_utf8(bytes({0xFC, 0x84, 0x80, 0x80, 0x80, 0x80})));
}

TEST(Utf8, refuses_a_truncated_character) {
  for (const unsigned point : {0x80U, 0x7FFU, 0x800U, 0x20ACU, 0xFFFFU, 0x10000U, 0x1F600U, 0x10FFFFU}) {
    const std::string whole = encoded(point);
    for (std::size_t length = 1; length < whole.size(); ++length) {
      // A heap buffer of the exact size, so that AddressSanitizer detects a read past its end.
      const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
      EXPECT_FALSE(is_utf8(std::string_view(cut.data(), cut.size()))) << point << " cut to " << length;
      EXPECT_FALSE(is_utf8(whole.substr(0, length) + "a")) << point << " cut to " << length;
      EXPECT_FALSE(is_utf8("a" + whole.substr(length))) << point << " without its first " << length;
    }
  }
}

TEST(Utf8, checks_the_whole_text) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
  const std::string good = encoded(0xE4) + encoded(0x20AC) + encoded(0x1F600) + "z";
  EXPECT_TRUE(is_utf8(good));
  EXPECT_FALSE(is_utf8(good + "\x80"));
  EXPECT_FALSE(is_utf8("\x80" + good));
}

TEST(Utf8, well_formed_text_is_unchanged) {
  for (const unsigned point : {0x00U, 0x7FU, 0x80U, 0x7FFU, 0x800U, 0xFFFDU, 0x10000U, 0x10FFFFU}) {
    const std::string text = "a" + encoded(point) + "b";
    EXPECT_EQ(to_utf8(text), text);
  }
  EXPECT_EQ(to_utf8(""), "");
}

TEST(Utf8, each_stray_byte_becomes_one_replacement_character) {
  const std::string mark(replacement);
  EXPECT_EQ(to_utf8("a\xE2\x82"), "a" + mark + mark);
  EXPECT_EQ(to_utf8("\xE2\x82z"), mark + mark + "z");
  EXPECT_EQ(to_utf8("\xF0\x80\x80\xAF"), mark + mark + mark + mark);
  EXPECT_EQ(to_utf8("\xED\xA0\x80"), mark + mark + mark);
  // Decoding resumes at the character after a stray byte.
  EXPECT_EQ(to_utf8("\xE2\xE2\x82\xAC"), mark + "\xE2\x82\xAC");
}

TEST(Utf8, a_list_has_at_most_ten_names) {
  std::vector<std::string> names;
  EXPECT_EQ(name_list(names), "");
  names = {"a", "b\xFF"};
  EXPECT_EQ(name_list(names), "a, b\xEF\xBF\xBD");
  names.assign(10, "x");
  EXPECT_EQ(name_list(names), "x, x, x, x, x, x, x, x, x, x");
  names.assign(1000, "x");
  EXPECT_EQ(name_list(names), "x, x, x, x, x, x, x, x, x, x … and 990 more");
}

std::string quoted(std::string_view text) {
  std::string out = "x";
  append_json_string(out, text);
  return out.substr(1);
}

TEST(JsonText, plain_text_is_unchanged) {
  EXPECT_EQ(quoted(""), R"("")");
  EXPECT_EQ(quoted("blk.0/ü\x7F"), "\"blk.0/ü\x7F\"");
}

TEST(JsonText, quotes_backslashes_and_control_characters_are_escaped) {
  EXPECT_EQ(quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(quoted("\b\t\n\f\r"), R"("\b\t\n\f\r")");
  EXPECT_EQ(quoted(std::string_view("\0\x1F\x1B", 3)), R"("\u0000\u001f\u001b")");
}

TEST(JsonText, invalid_utf8_is_replaced) { EXPECT_EQ(quoted("a\xFF"), "\"a\xEF\xBF\xBD\""); }

TEST(PathProblem, accepts_paths_inside_the_folder) {
  for (const auto* path :
       {"a", "a.safetensors", "a/b", "./a", "a/./b", "a//b", "..a", "a..", "a...b/c", "ü", " "}) {
    EXPECT_EQ(path_problem(path), "") << path;
  }
}

TEST(PathProblem, refuses_paths_that_may_leave_the_folder_or_name_no_file) {
  for (const auto* path : {"", "/", "/a", "//a", "..", "../a", "a/..", "a/../b", "a/../../b", "./..", "a\\b",
                           "..\\a", "C:\\a", ".", "a/", "a/.", "\xFF"}) {
    EXPECT_NE(path_problem(path), "") << path;
  }
  EXPECT_NE(path_problem(std::string_view("a\0b", 3)), "");
  EXPECT_EQ(path_problem("/etc/passwd"), "is absolute");
  EXPECT_EQ(path_problem("a/../../b"), "contains '..'");
}

}  // namespace
}  // namespace ht::utf8_test
