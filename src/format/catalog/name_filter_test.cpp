#include <htensor/format/names.hpp>

#include <fnmatch.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <string>

namespace ht::glob_test {
namespace {

using namespace std::string_view_literals;

bool glob_matches(std::string_view pattern, std::string_view text) {
  return NameFilter(pattern).matches(text);
}

void expect_malformed(std::string_view pattern, std::string_view rule) {
  const NameFilter filter(pattern);
  const auto checked = filter.check();
  ASSERT_FALSE(checked) << pattern;
  EXPECT_EQ(checked.error().code(), ErrorCode::bad_state);
  EXPECT_EQ(checked.error().rule(), rule) << pattern;
  EXPECT_FALSE(checked.error().hint().empty());
  EXPECT_FALSE(filter.matches(pattern));
  EXPECT_FALSE(filter.is_everything());
}

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

TEST(Glob, backslash_escapes_a_character) {
  EXPECT_TRUE(glob_matches(R"(\*\?\[\a\\)", R"(*?[a\)"));
  EXPECT_FALSE(glob_matches(R"(\*)", "a"));
  EXPECT_TRUE(glob_matches(R"([\]])", "]"));
  EXPECT_TRUE(glob_matches(R"([a\-z])", "-"));
  EXPECT_FALSE(glob_matches(R"([a\-z])", "b"));
}

TEST(Glob, bracket_is_closed) {
  for (const auto* pattern : {"[", "a[b", "*[x][", "[!]", "[]", "{a,[b}", R"([a\])"})
    expect_malformed(pattern, "bracket_is_closed");
  EXPECT_TRUE(glob_matches("a]", "a]"));
}

TEST(Glob, brace_is_closed) {
  for (const auto* pattern : {"{", "a{b,c", "{a,{b}", "{a[}]"}) expect_malformed(pattern, "brace_is_closed");
  EXPECT_TRUE(glob_matches("a},b", "a},b"));
}

TEST(Glob, escape_is_followed_by_a_character) {
  for (const auto* pattern : {R"(\)", R"(a\)", R"({a,b}\)"})
    expect_malformed(pattern, "escape_is_followed_by_a_character");
}

TEST(Glob, braces_are_alternatives) {
  EXPECT_TRUE(glob_matches("{a,b}*", "axy"));
  EXPECT_TRUE(glob_matches("{a,b}*", "b"));
  EXPECT_FALSE(glob_matches("{a,b}*", "cb"));
  EXPECT_TRUE(glob_matches("blk.{0,1?}.{attn_{q,k},ffn_*}.weight", "blk.12.attn_k.weight"));
  EXPECT_TRUE(glob_matches("blk.{0,1?}.{attn_{q,k},ffn_*}.weight", "blk.0.ffn_up.weight"));
  EXPECT_FALSE(glob_matches("blk.{0,1?}.{attn_{q,k},ffn_*}.weight", "blk.0.attn_v.weight"));
  EXPECT_TRUE(glob_matches("a{,b}", "a"));
  EXPECT_TRUE(glob_matches("a{,b}", "ab"));
  EXPECT_TRUE(glob_matches("a{b}", "ab"));
  EXPECT_TRUE(glob_matches("a{}", "a"));
  EXPECT_TRUE(glob_matches("{[,}],b}", "}"));
}

TEST(Glob, backslash_escapes_braces) {
  EXPECT_TRUE(glob_matches(R"(\{a,b})", "{a,b}"));
  EXPECT_TRUE(glob_matches(R"({a\,b,c\}})", "a,b"));
  EXPECT_TRUE(glob_matches(R"({a\,b,c\}})", "c}"));
  EXPECT_FALSE(glob_matches(R"({a\,b,c\}})", "b"));
}

TEST(Glob, braces_expand_within_limit) {
  std::string doubled;
  for (int i = 0; i < 10; ++i) doubled += "{a,b}";
  EXPECT_TRUE(glob_matches(doubled, "abababbbaa"));
  expect_malformed(doubled + "{a,b}", "braces_expand_within_limit");
  std::string hostile;
  for (int i = 0; i < 500; ++i) hostile += "{a,b}";
  expect_malformed(hostile, "braces_expand_within_limit");
  expect_malformed(std::string(2048, '{') + std::string(2049, '}'), "braces_expand_within_limit");
  EXPECT_TRUE(glob_matches(std::string(2000, '{') + "a" + std::string(2000, '}'), "a"));
  expect_malformed("{" + std::string(1024, ',') + "}", "braces_expand_within_limit");
  EXPECT_TRUE(glob_matches("{" + std::string(1023, ',') + "}", ""));
  const std::string long_name(100'000, 'a');
  EXPECT_TRUE(glob_matches(long_name, long_name));
}

TEST(Glob, an_escaped_name_matches_only_itself) {
  for (const auto* name : {"a", "*", "a?", "[a]", "{a,b}", R"(\)", R"(a\b)", "a]}", "é"}) {
    EXPECT_TRUE(glob_matches(escape_glob(name), name)) << name;
    EXPECT_FALSE(glob_matches(escape_glob(name), "b")) << name;
  }
}

TEST(NameFilter, matches_included_names_that_are_not_excluded) {
  EXPECT_TRUE(NameFilter().matches(""));
  EXPECT_TRUE(NameFilter().is_everything());
  EXPECT_TRUE(NameFilter("*").is_everything());
  const NameFilter two({"a*", "b*"});
  EXPECT_TRUE(two.matches("a1") && two.matches("b1"));
  EXPECT_FALSE(two.matches("c1"));
  const NameFilter without({}, {"*.bias", "*norm*"});
  EXPECT_TRUE(without.matches("a.weight"));
  EXPECT_FALSE(without.matches("a.bias"));
  EXPECT_FALSE(without.matches("a.norm.weight"));
  EXPECT_FALSE(without.is_everything());
  const NameFilter both({"a*"}, {"*1"});
  EXPECT_TRUE(both.matches("a2"));
  EXPECT_FALSE(both.matches("a1") || both.matches("b2"));
  EXPECT_FALSE(NameFilter("").matches("a"));
  EXPECT_TRUE(NameFilter("").matches(""));
}

TEST(NameFilter, checks_every_pattern) {
  EXPECT_TRUE(NameFilter({"a", "b"}, {"c"}).check());
  EXPECT_FALSE(NameFilter({"*", "["}).check());
  EXPECT_FALSE(NameFilter({}, {"{"}).check());
  EXPECT_FALSE(NameFilter({}, {"{"}).matches("a"));
}

TEST(NameFilter, filter_matches_a_tensor) {
  const auto message_of = [](const NameFilter& filter) { return std::string(filter.no_match().message()); };
  EXPECT_EQ(NameFilter("x").no_match().rule(), "filter_matches_a_tensor");
  EXPECT_EQ(message_of("x*"), "no tensor matches 'x*'");
  EXPECT_EQ(message_of(NameFilter({"x", "y", "z"}, {"*1"})),
            "no tensor matches x, y, z without matching '*1'");
  EXPECT_EQ(message_of(NameFilter({}, {"*"})), "every tensor is excluded by '*'");
}

TEST(Glob, nul_is_an_ordinary_character) {
  EXPECT_FALSE(glob_matches("a", "a\0b"sv));
  EXPECT_TRUE(glob_matches("a?b", "a\0b"sv));
  EXPECT_TRUE(glob_matches("*b", "a\0b"sv));
  EXPECT_TRUE(glob_matches("a\0*"sv, "a\0b"sv));
  EXPECT_TRUE(glob_matches("[\0]"sv, "\0"sv));
}

TEST(Glob, characters_are_utf8_code_points) {
  EXPECT_TRUE(glob_matches("?", "é"));
  EXPECT_TRUE(glob_matches("?", "\U0001F600"));
  EXPECT_FALSE(glob_matches("??", "é"));
  EXPECT_TRUE(glob_matches("[α-ω]*", "λx"));
  EXPECT_FALSE(glob_matches("[α-ω]", "Ω"));
  EXPECT_TRUE(glob_matches("[a-\U0001F600]", "é"));
  EXPECT_TRUE(glob_matches("[!é]", "è"));
  EXPECT_TRUE(glob_matches("*\\é", "éé"));
  // Each byte that is not part of a valid character counts as a character. A byte inside a character does not
  // match.
  EXPECT_TRUE(glob_matches("??", "\xFF\xC3"));
  EXPECT_TRUE(glob_matches("\xFF", "\xFF"));
  EXPECT_FALSE(glob_matches("*\xA9", "é"));
}

TEST(Glob, time_for_many_stars_is_at_most_the_product_of_both_lengths) {
  std::string pattern;
  for (int i = 0; i < 300; ++i) pattern += "*a";
  const std::string text(5000, 'a');
  EXPECT_TRUE(glob_matches(pattern, text));
  EXPECT_FALSE(glob_matches(pattern + "b", text));
  EXPECT_FALSE(glob_matches("*" + std::string(1000, '[') + "]x", std::string(2000, '[')));
}

// A part of a pattern, and a text that the part usually matches.
struct Piece {
  std::string_view pattern;
  std::string_view text;
};

// No piece has `[:`, `[.` or `[=` in it, which fnmatch reserves for classes and locales.
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

RC_GTEST_PROP(Glob, matches_like_fnmatch, ()) {
  for (int i = 0; i < 100; ++i) {
    std::string pattern;
    std::string text;
    for (auto left = *rc::gen::inRange(0, 7); left > 0; --left) {
      const auto& piece = *rc::gen::elementOf(pieces);
      pattern += piece.pattern;
      text += *rc::gen::inRange(0, 8) != 0 ? piece.text : (*rc::gen::elementOf(pieces)).text;
    }
    const NameFilter filter(pattern);
    if (!filter.check()) continue;  // fnmatch treats a bracket that is not closed as a literal
    RC_ASSERT(filter.matches(text) == (fnmatch(pattern.c_str(), text.c_str(), 0) == 0));
  }
}

}  // namespace
}  // namespace ht::glob_test
