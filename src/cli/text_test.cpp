#include "cli/text.hpp"

#include <gtest/gtest.h>

namespace ht::cli {
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

TEST(Text, what_is_no_size_is_refused) {
  for (const auto* text : {"", "K", "-1", "+1", "1Q", "1KK", "1 K", "0x10", "nan", "1e3", "99999999999E",
                           "99999999999999999999", ".", "1.2.3K", "16E"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(Text, sizes_are_shown_with_one_digit_at_most) {
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
  EXPECT_EQ(printable("\xFFok"), "\xEF\xBF\xBDok");
  EXPECT_EQ(printable("naïve 模型 🙂"), "naïve 模型 🙂");
}

TEST(Text, columns_count_characters_and_not_bytes) {
  EXPECT_EQ(character_count(""), 0U);
  EXPECT_EQ(character_count("abc"), 3U);
  EXPECT_EQ(character_count("naïve"), 5U);
}

TEST(Text, json_strings_are_escaped_and_utf8) {
  EXPECT_EQ(json_string("a\"b\\c\n"), R"("a\"b\\c\n")");
  EXPECT_EQ(json_string(std::string_view("\0", 1)), R"("\u0000")");
  EXPECT_EQ(json_string("\xFF"), "\"\xEF\xBF\xBD\"");
}

template <class D>
std::string json_of(typename D::Element value) {
  fmt::memory_buffer out;
  append_element<D>(out, value, true);
  return fmt::to_string(out);
}

TEST(Text, values_are_shown_so_that_they_read_back) {
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
  EXPECT_EQ(
      json_error(Error(ErrorCode::overlap, "tensors_do_not_overlap", "they do")
                     .at_path("m.ht")
                     .at_tensor("a")
                     .at_offset(4096)
                     .with_hint("h")),
      R"({"error":{"code":"overlap","rule":"tensors_do_not_overlap","path":"m.ht","tensor":"a","offset":4096,)"
      R"("message":"they do","hint":"h"}})");
  EXPECT_EQ(
      json_error(Error(ErrorCode::out_of_memory)),
      R"({"error":{"code":"out_of_memory","rule":"out_of_memory","path":null,"tensor":null,"offset":null,)"
      R"("message":"out of memory","hint":null}})");
}

}  // namespace
}  // namespace ht::cli
