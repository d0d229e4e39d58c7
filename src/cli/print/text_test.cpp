#include "cli/print/text.hpp"
#include "base/utf8.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ht::cli::text_test {
namespace {

TEST(Text, sizes_are_read_in_powers_of_1024) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("123"), 123U);
  EXPECT_EQ(parse_size("4K"), 4096U);
  EXPECT_EQ(parse_size("4k"), 4096U);
  EXPECT_EQ(parse_size("16M"), std::uint64_t{16} << 20);
  EXPECT_EQ(parse_size("2.5G"), std::uint64_t{5} << 29);
  EXPECT_EQ(parse_size("1T"), std::uint64_t{1} << 40);
  EXPECT_EQ(parse_size("1GiB"), std::uint64_t{1} << 30);
  EXPECT_EQ(parse_size("9007199254740993"), 9007199254740993U);
}

TEST(Text, malformed_sizes_are_refused) {
  for (const auto* text : {"", "K", "-1", "+1", "1Q", "1KK", "1 K", "0x10", "nan", "1e3", "99999999999E",
                           "99999999999999999999", ".", "1.2.3K", "16E", "12iB"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(Text, sizes_have_at_most_one_decimal) {
  EXPECT_EQ(size_text(0), "0");
  EXPECT_EQ(size_text(1023), "1023");
  EXPECT_EQ(size_text(1024), "1K");
  EXPECT_EQ(size_text(1536), "1.5K");
  EXPECT_EQ(size_text(std::uint64_t{5} << 29), "2.5G");
  EXPECT_EQ(size_text(std::uint64_t{1} << 40), "1T");
  EXPECT_EQ(size_text(UINT64_MAX), "16E");
  EXPECT_EQ(size_text((1 << 20) - 1), "1M");
}

TEST(Text, nothing_printed_can_move_the_cursor) {
  EXPECT_EQ(printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(printable("\x1b[31mred"), "\\u{1b}[31mred");
  EXPECT_EQ(printable("\xC2\x9B"), "\\u{9b}");
  EXPECT_EQ(printable("a\xE2\x80\xAE"
                      "b"),
            "a\\u{202e}b");
  EXPECT_EQ(printable("a\xD8\x9C"
                      "b"),
            "a\\u{61c}b");
  EXPECT_EQ(printable("\xFFok"), "\xEF\xBF\xBDok");
  EXPECT_EQ(printable("naïve 模型 🙂"), "naïve 模型 🙂");
}

TEST(Text, sizes_are_rounded_to_the_nearest_tenth) {
  for (const std::uint64_t bytes :
       {1024ULL, 1075ULL, 1076ULL, 1126ULL, 2047ULL, 2048ULL, 102'349ULL, 102'400ULL, 102'912ULL,
        1'048'063ULL, 1'048'064ULL, 1'048'576ULL, 123'456'789ULL, 987'654'321'012ULL, 1ULL << 63}) {
    auto value = static_cast<double>(bytes);
    char unit = '\0';
    for (const char next : std::string_view("KMGTPE")) {
      if (value < 1023.5) break;
      value /= 1024;
      unit = next;
    }
    const auto shown = size_text(bytes);
    EXPECT_EQ(shown.back(), unit) << bytes;
    EXPECT_NEAR(std::stod(shown), value, value < 100 ? 0.0501 : 0.5001) << bytes;
  }
  EXPECT_EQ(byte_count_text(1), "1 byte");
  EXPECT_EQ(byte_count_text(1023), "1023 bytes");
  EXPECT_EQ(byte_count_text(1024), "1K");
}

TEST(Text, digits_are_counted) {
  EXPECT_EQ(digit_count(0), 1U);
  EXPECT_EQ(digit_count(UINT64_MAX), 20U);
  for (std::uint64_t power = 10; power < UINT64_MAX / 10; power *= 10) {
    EXPECT_EQ(digit_count(power - 1), std::to_string(power - 1).size());
    EXPECT_EQ(digit_count(power), std::to_string(power).size());
  }
}

TEST(Text, counts_are_shown_with_three_digits) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1.00 K");
  EXPECT_EQ(count_text(12'345), "12.3 K");
  EXPECT_EQ(count_text(999'499), "999 K");
  EXPECT_EQ(count_text(999'500), "1.00 M");
  EXPECT_EQ(count_text(9'995'000), "10.0 M");
  EXPECT_EQ(count_text(1'235'814'400), "1.24 B");
  EXPECT_EQ(count_text(8'030'261'248), "8.03 B");
  EXPECT_EQ(count_text(671'000'000'000), "671 B");
  EXPECT_EQ(count_text(1'000'000'000'000), "1.00 T");
  EXPECT_EQ(count_text(UINT64_MAX), "18446744 T");
}

TEST(Text, plain_text_is_printable_ascii) {
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = byte >= 0x20 && byte < 0x7F;
    for (std::size_t size = 1; size < 20; ++size) {
      for (std::size_t at = 0; at < size; ++at) {
        std::string text(size, 'x');
        text[at] = static_cast<char>(byte);
        ASSERT_EQ(is_plain(text), is_printable) << byte << " at " << at << " of " << size;
        ASSERT_EQ(is_plain_json(text), is_printable && byte != '"' && byte != '\\') << byte;
      }
    }
  }
  EXPECT_TRUE(is_plain(""));
}

TEST(Text, natural_order_compares_numbers_by_value) {
  const std::vector<std::string> sorted{"",
                                        "a",
                                        "a.02",
                                        "a.2",
                                        "a.10",
                                        "a.10b",
                                        "a.11",
                                        "a.b",
                                        "b.0",
                                        "b.00",
                                        "b.1",
                                        "b.1.9",
                                        "b.1a",
                                        "b.99999999999999999999999999",
                                        "b.100000000000000000000000000",
                                        "ba",
                                        "\xC3\xA9"};
  auto names = sorted;
  std::ranges::reverse(names);
  std::ranges::sort(names, [](const auto& a, const auto& b) { return natural_order(a, b) < 0; });
  EXPECT_EQ(names, sorted);
}

TEST(Text, natural_order_is_total) {
  std::vector<std::string> names{""};
  const std::string letters = "019a.";
  for (std::size_t begin = 0, length = 0; length < 4; ++length) {
    const std::size_t end = names.size();
    for (; begin < end; ++begin) {
      for (const char letter : letters) names.push_back(names[begin] + letter);
    }
  }
  std::ranges::sort(names, [](const auto& a, const auto& b) { return natural_order(a, b) < 0; });
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t j = 0; j < names.size(); ++j) {
      ASSERT_EQ(natural_order(names[i], names[j]), i <=> j) << names[i] << " and " << names[j];
    }
  }
}

TEST(Text, columns_count_wide_characters_twice_and_combining_marks_zero_times) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("naïve"), 5U);
  EXPECT_EQ(display_width("模型"), 4U);
  EXPECT_EQ(display_width("ｗ한か"), 6U);
  EXPECT_EQ(display_width("🙂"), 2U);
  EXPECT_EQ(display_width("e\u0301"), 1U);
  EXPECT_EQ(display_width("…"), 1U);
}

TEST(Text, shortening_leaves_out_the_middle) {
  EXPECT_EQ(shorten_middle("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(shorten_middle("abcdefghij", 5), "ab…ij");
  EXPECT_EQ(shorten_middle("abcdefghij", 6), "abc…ij");
  EXPECT_EQ(shorten_middle("abc", 1), "…");
  EXPECT_EQ(shorten_middle("abc", 0), "");
  // Neither a wide character nor one with a mark is cut.
  EXPECT_EQ(shorten_middle("模型模型", 6), "模…型");
  EXPECT_EQ(shorten_middle("ae\u0301bcde\u0301", 3), "a…e\u0301");
  for (std::size_t columns = 0; columns < 12; ++columns) {
    const auto cut = shorten_middle("a模e\u0301🙂b型c", columns);
    EXPECT_LE(display_width(cut), columns);
    EXPECT_TRUE(is_utf8(cut)) << cut;
  }
}

TEST(Text, empty_names_are_visible) {
  EXPECT_EQ(name_text(""), "''");
  EXPECT_EQ(name_text("a\n"), "a\\n");
}

TEST(Text, json_strings_are_escaped_and_utf8) {
  EXPECT_EQ(json_string("a\"b\\c\n"), R"("a\"b\\c\n")");
  EXPECT_EQ(json_string(std::string_view("\0", 1)), R"("\u0000")");
  EXPECT_EQ(json_string("\xFF"), "\"\xEF\xBF\xBD\"");
}

template <class D>
std::string json_of(typename D::Element value) {
  std::string out;
  append_element<D>(out, value, true);
  return out;
}

TEST(Text, shown_values_parse_to_the_same_value) {
  EXPECT_EQ(json_of<F32>(0.1F), "0.1");
  EXPECT_EQ(json_of<F64>(0.1), "0.1");
  EXPECT_EQ(json_of<F64>(1e300), "1e+300");
  EXPECT_EQ(json_of<BF16>(BF16::Element(1.5)), "1.5");
  EXPECT_EQ(json_of<I8>(-128), "-128");
  EXPECT_EQ(json_of<U8>(255), "255");
  EXPECT_EQ(json_of<U64>(UINT64_MAX), "18446744073709551615");
  EXPECT_EQ(json_of<I4>(I4::Element(-8)), "-8");
  EXPECT_EQ(json_of<Bool>(Boolean::from_bits(2)), "true");
  EXPECT_EQ(json_of<C64>({1, -2.5F}), "[1,-2.5]");
  EXPECT_EQ(json_of<F32>(-0.0F), "-0.0");
  EXPECT_EQ(json_of<BF16>(BF16::Element(-0.0)), "-0.0");
}

TEST(Text, nan_and_infinity_are_strings_in_json) {
  EXPECT_EQ(json_of<F32>(std::numeric_limits<float>::quiet_NaN()), "\"NaN\"");
  EXPECT_EQ(json_of<F64>(std::numeric_limits<double>::infinity()), "\"Infinity\"");
  EXPECT_EQ(json_of<F16>(F16::Element(-1e9)), "\"-Infinity\"");
}

TEST(Text, errors_have_all_their_keys_in_json) {
  EXPECT_EQ(json_members(Error(ErrorCode::overlap, "tensors_do_not_overlap", "they do")
                             .at_path("m.ht")
                             .at_tensor("a")
                             .at_offset(4096)
                             .with_hint("h")),
            R"("code":"overlap","rule":"tensors_do_not_overlap","path":"m.ht","tensor":"a","offset":4096,)"
            R"("message":"they do","hint":"h")");
  EXPECT_EQ(json_members(Error(ErrorCode::out_of_memory)),
            R"("code":"out_of_memory","rule":"out_of_memory","path":null,"tensor":null,"offset":null,)"
            R"("message":"out of memory","hint":null)");
}

}  // namespace
}  // namespace ht::cli::text_test
