#include "format/json/json.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ht::json::json_test {
namespace {

// Reads a whole document. Returns the keys, each followed by a semicolon, or the problem.
std::string read(std::string_view text) {
  Document document(bytes_of(text));
  std::string seen;
  const auto problem = document.each<Problem>(
      [&](std::string_view key, Value& value) -> std::optional<Problem> {
        seen += std::string(key) + ";";
        return document.check(value);
      },
      [](const Problem& found) { return found; });
  return problem ? "problem: " + std::string(problem->message) : seen;
}

void expect_refusal(std::string_view text) { EXPECT_EQ(read(text).find("problem: "), 0U) << text; }

TEST(Json, reads_objects_with_surrounding_space) {
  EXPECT_EQ(read("{}"), "");
  EXPECT_EQ(read(" \t\r\n{ } \n"), "");
  EXPECT_EQ(read(R"({"a":1,"b":{"c":[1,2.5,-3e4,true,false,null,"x",{}]},"d":[]})"), "a;b;d;");
}

TEST(Json, keys_are_read_without_their_escapes) {
  EXPECT_EQ(read(R"({"a\"b":1})"), "a\"b;");
  EXPECT_EQ(read(R"({"\u0061\n":1})"), "a\n;");
  EXPECT_EQ(read(R"({"\ud83d\ude00":1})"), "\xF0\x9F\x98\x80;");
}

TEST(Json, refuses_text_that_is_not_a_single_object) {
  for (const auto* text :
       {"", " ", "[]", "1", "null", "\"a\"", "{", "}", "{}{}", "{}x", "{} 1}", "x{}", "{}}", "{{}"}) {
    expect_refusal(text);
  }
  expect_refusal(std::string_view("{}\0", 3));
  expect_refusal("\xEF\xBB\xBF{}");
}

TEST(Json, refuses_syntax_errors_at_any_position) {
  for (const auto* text :
       {R"({"a"})",          R"({"a":})",      R"({"a":1,})",    R"({,"a":1})",      R"({"a":1 "b":2})",
        R"({"a":1,,"b":2})", R"({a:1})",       R"({'a':1})",     R"({"a":[1,]})",    R"({"a":[,1]})",
        R"({"a":[1 2]})",    R"({"a":[1}})",   R"({"a":{"b"}})", R"({"a":{"b":1]})", R"({"a":tru})",
        R"({"a":trux})",     R"({"a":nul})",   R"({"a":nulll})", R"({"a":True})",    R"({"a":NaN})",
        R"({"a":Infinity})", R"({"a"::1})",    R"({"a" 1})",     R"({"a":"b"x})",    R"({"a":1x})",
        R"({"a":/**/1})",    R"({"a":falsey})"}) {
    expect_refusal(text);
  }
}

TEST(Json, refuses_invalid_numbers) {
  for (const auto* number :
       {"01", "-01", "+1", "1.", ".5", "1e", "1e+", "--1", "0x10", "1_000", "1e999", "-", "- 1"}) {
    expect_refusal(R"({"a":)" + std::string(number) + "}");
  }
}

TEST(Json, refuses_invalid_strings) {
  for (const auto* text :
       {R"({"a":"\x41"})", R"({"a":"\u12"})", R"({"a":"\ud800"})", R"({"a":"\udc00"})",
        R"({"a":"\ud800\u0041"})", R"({"\ud800":1})", R"({"\q":1})", "{\"a\":\"\n\"}", "{\"a\":\"\x01\"}",
        "{\"a\":\"\xFF\"}", "{\"\xC0\x80\":1}", R"({"a":"b)", R"({"a":"b\"})"}) {
    expect_refusal(text);
  }
  expect_refusal(std::string_view("{\"a\0\":1}", 8));
}

TEST(Json, unsigned_integers_are_digits_below_2_to_the_64) {
  const auto number_in = [](const std::string& number) {
    const std::string text = "{\"a\":" + number + "}";
    Document document(bytes_of(text));
    std::optional<std::uint64_t> result;
    const auto problem = document.each<Problem>(
        [&](std::string_view, Value& value) -> std::optional<Problem> {
          const auto parsed = document.unsigned_integer(value);
          if (!parsed) return parsed.error();
          result = *parsed;
          return std::nullopt;
        },
        [](const Problem& found) { return found; });
    return problem ? std::nullopt : result;
  };
  EXPECT_EQ(number_in("0"), 0U);
  EXPECT_EQ(number_in("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(number_in(" 7 "), 7U);
  for (const auto* number : {"18446744073709551616", "99999999999999999999999", "-1", "-0", "1.0", "1e2",
                             "00", "01", "\"1\"", "true", "null", "[1]", "1 2", "١"}) {
    EXPECT_EQ(number_in(number), std::nullopt) << number;
  }
}

TEST(Json, depth_is_bounded) {
  const auto nested = [](std::size_t depth, const std::string& innermost = "") {
    return "{\"a\":" + std::string(depth - 1, '[') + innermost + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(read(nested(max_depth)), "a;");
  for (const auto* const scalar : {"1", "\"text\"", "true", "null"}) {
    EXPECT_EQ(read(nested(max_depth, scalar)), "a;") << scalar;
    expect_refusal(nested(max_depth + 1, scalar));
  }
  expect_refusal(nested(max_depth, "{}"));
  expect_refusal(nested(max_depth + 1));
  expect_refusal(nested(100'000));
  std::string open = "{\"a\":" + std::string(100'000, '[') + "}";
  expect_refusal(open);
}

TEST(Json, problems_have_an_offset) {
  const std::string text = R"({"a":1,"b":?})";
  Document document(bytes_of(text));
  const auto problem =
      document.each<Problem>([&](std::string_view, Value& value) { return document.check(value); },
                             [](const Problem& found) { return found; });
  ASSERT_TRUE(problem);
  EXPECT_NEAR(static_cast<double>(problem->offset), 11, 1);
}

TEST(Json, bytes_that_follow_the_text_are_not_parsed) {
  // Digits follow the text. A parser that reads past the end would accept them as part of the text.
  for (const std::string text : {R"({"a":1)", R"({"a":12)", R"({"a":"b)", R"({"a)"}) {
    const std::string all = text + std::string(200, '1');
    Document document(bytes_of(all).first(text.size()), bytes_of(all).subspan(text.size()));
    const auto problem =
        document.each<Problem>([](std::string_view, Value&) { return std::optional<Problem>(); },
                               [](const Problem& found) { return found; });
    EXPECT_TRUE(problem) << text;
  }
  const std::string all = R"({"a":1})" + std::string(200, '1');
  Document document(bytes_of(all).first(7), bytes_of(all).subspan(7));
  EXPECT_FALSE(document.each<Problem>([&](std::string_view, Value& value) { return document.check(value); },
                                      [](const Problem& found) { return found; }));
}

}  // namespace
}  // namespace ht::json::json_test
