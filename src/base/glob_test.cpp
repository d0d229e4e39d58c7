#include <htensor/base/glob.hpp>

#include <fnmatch.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <string>

namespace ht {
namespace {

using namespace std::string_view_literals;

TEST(Glob, star_is_any_characters) {
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("a", ""));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*", ".a/b"));
  EXPECT_TRUE(glob_matches("blk.*.weight", "blk.0.attn_q.weight"));
  EXPECT_FALSE(glob_matches("blk.*.weight", "blk.0.attn_q.weights"));
  EXPECT_TRUE(glob_matches("*ab*ab", "abaabab"));
  EXPECT_FALSE(glob_matches("*ab*ab", "aba"));
}

TEST(Glob, question_mark_and_sets_are_one_character) {
  EXPECT_TRUE(glob_matches("a?c", "abc"));
  EXPECT_FALSE(glob_matches("a?c", "ac"));
  EXPECT_TRUE(glob_matches("blk.[0-3].w", "blk.2.w"));
  EXPECT_FALSE(glob_matches("blk.[0-3].w", "blk.4.w"));
  EXPECT_FALSE(glob_matches("[!a-c]", "b"));
  EXPECT_TRUE(glob_matches("[!a-c]", "d"));
  EXPECT_TRUE(glob_matches("[^a-c]", "d"));
  EXPECT_FALSE(glob_matches("[!a]", ""));
  EXPECT_TRUE(glob_matches("[]a]", "]"));
  EXPECT_TRUE(glob_matches("[!]a]", "b"));
  EXPECT_TRUE(glob_matches("[a-]", "-"));
  EXPECT_FALSE(glob_matches("[c-a]", "b"));
}

TEST(Glob, backslash_takes_the_meaning_away) {
  EXPECT_TRUE(glob_matches(R"(\*\?\[\a\\)", R"(*?[a\)"));
  EXPECT_FALSE(glob_matches(R"(\*)", "a"));
  EXPECT_TRUE(glob_matches(R"([\]])", "]"));
  EXPECT_TRUE(glob_matches(R"([a\-z])", "-"));
  EXPECT_FALSE(glob_matches(R"([a\-z])", "b"));
  EXPECT_FALSE(glob_matches(R"(a\)", "a"));
  EXPECT_FALSE(glob_matches(R"(a\)", R"(a\)"));
}

TEST(Glob, bracket_that_is_not_closed_means_itself) {
  EXPECT_TRUE(glob_matches("a[b", "a[b"));
  EXPECT_TRUE(glob_matches("*[x][", "[x["));
  EXPECT_TRUE(glob_matches("*[x][", "[[xx["));
  EXPECT_FALSE(glob_matches("[", "a"));
  EXPECT_TRUE(glob_matches("[!]", "[!]"));
}

TEST(Glob, nul_is_a_character_like_others) {
  EXPECT_FALSE(glob_matches("a", "a\0b"sv));
  EXPECT_TRUE(glob_matches("a?b", "a\0b"sv));
  EXPECT_TRUE(glob_matches("*b", "a\0b"sv));
  EXPECT_TRUE(glob_matches("a\0*"sv, "a\0b"sv));
  EXPECT_TRUE(glob_matches("[\0]"sv, "\0"sv));
}

TEST(Glob, characters_are_those_of_utf8) {
  EXPECT_TRUE(glob_matches("?", "é"));
  EXPECT_TRUE(glob_matches("?", "\U0001F600"));
  EXPECT_FALSE(glob_matches("??", "é"));
  EXPECT_TRUE(glob_matches("[α-ω]*", "λx"));
  EXPECT_FALSE(glob_matches("[α-ω]", "Ω"));
  EXPECT_TRUE(glob_matches("[a-\U0001F600]", "é"));
  EXPECT_TRUE(glob_matches("[!é]", "è"));
  EXPECT_TRUE(glob_matches("*\\é", "éé"));
  // What is no character is told apart by its bytes, and is no part of one.
  EXPECT_TRUE(glob_matches("??", "\xFF\xC3"));
  EXPECT_TRUE(glob_matches("\xFF", "\xFF"));
  EXPECT_FALSE(glob_matches("*\xA9", "é"));
}

TEST(Glob, many_stars_take_no_longer_than_the_product_of_lengths) {
  std::string pattern;
  for (int i = 0; i < 300; ++i) pattern += "*a";
  const std::string text(5000, 'a');
  EXPECT_TRUE(glob_matches(pattern, text));
  EXPECT_FALSE(glob_matches(pattern + "b", text));
  EXPECT_FALSE(glob_matches("*" + std::string(1000, '[') + "x", std::string(2000, '[')));
}

// A part of a pattern and a text that it matches, most of the time.
struct Piece {
  std::string_view pattern;
  std::string_view text;
};

// None has `[:`, `[.` or `[=` in it, which fnmatch keeps for classes and locales, and none ends with a
// hyphen, which fnmatch lets nothing match in a bracket that is not closed.
constexpr std::array pieces{
    Piece{"a", "a"},      Piece{"b", "b"},       Piece{"-a", "-a"},   Piece{"*", ""},
    Piece{"*", "ab"},     Piece{"?", "b"},       Piece{"\\*", "*"},   Piece{"\\a", "a"},
    Piece{"[ab]", "b"},   Piece{"[!b]", "a"},    Piece{"[^b]", "a"},  Piece{"[a-c]", "b"},
    Piece{"[!a-c]", "-"}, Piece{"[c-a]", "b"},   Piece{"[a-]", "-"},  Piece{"[]-]", "-"},
    Piece{"[]]", "]"},    Piece{"[!]]", "a"},    Piece{"[\\]]", "]"}, Piece{"[a\\-c]", "-"},
    Piece{"[+--]", ","},  Piece{"[[]", "["},     Piece{"[", "["},     Piece{"]", "]"},
    Piece{"[!", "[!"},    Piece{"[\\", "["},     Piece{"\\", ""},     Piece{"!", "!"},
    Piece{"^", "^"},      Piece{"[b-\\d]", "c"},
};

RC_GTEST_PROP(Glob, is_what_fnmatch_does, ()) {
  for (int i = 0; i < 100; ++i) {
    std::string pattern;
    std::string text;
    for (auto left = *rc::gen::inRange(0, 7); left > 0; --left) {
      const auto& piece = *rc::gen::elementOf(pieces);
      pattern += piece.pattern;
      text += *rc::gen::inRange(0, 8) != 0 ? piece.text : (*rc::gen::elementOf(pieces)).text;
    }
    RC_ASSERT(glob_matches(pattern, text) == (fnmatch(pattern.c_str(), text.c_str(), 0) == 0));
  }
}

}  // namespace
}  // namespace ht
