#include <gtest/gtest.h>

#include <htensor/base/json_text.hpp>

namespace ht {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "x";
  append_json_string(out, text);
  return out.substr(1);
}

TEST(JsonText, plain_text_stands_as_it_is) {
  EXPECT_EQ(quoted(""), R"("")");
  EXPECT_EQ(quoted("blk.0/ü\x7F"), "\"blk.0/ü\x7F\"");
}

TEST(JsonText, quotes_backslashes_and_control_characters_are_escaped) {
  EXPECT_EQ(quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(quoted("\b\t\n\f\r"), R"("\b\t\n\f\r")");
  EXPECT_EQ(quoted(std::string_view("\0\x1F\x1B", 3)), R"("\u0000\u001f\u001b")");
}

TEST(JsonText, bytes_that_are_no_utf8_are_replaced) { EXPECT_EQ(quoted("a\xFF"), "\"a\xEF\xBF\xBD\""); }

}  // namespace
}  // namespace ht
