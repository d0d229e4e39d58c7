#include <gtest/gtest.h>

#include <htensor/base/bytes.hpp>
#include <limits>

namespace ht::checked_test {
namespace {

template <class T>
constexpr T lowest = std::numeric_limits<T>::min();
template <class T>
constexpr T highest = std::numeric_limits<T>::max();

// Tests all pairs of an 8-bit type. int represents every exact result and is the oracle.
template <class T>
void expect_all_pairs_match_int() {
  const auto in_t = [](int exact) { return exact >= lowest<T> && exact <= highest<T>; };
  for (int a = lowest<T>; a <= highest<T>; ++a) {
    for (int b = lowest<T>; b <= highest<T>; ++b) {
      const auto x = static_cast<T>(a);
      const auto y = static_cast<T>(b);
      ASSERT_EQ(checked::add(x, y), in_t(a + b) ? std::optional(static_cast<T>(a + b)) : std::nullopt);
      ASSERT_EQ(checked::subtract(x, y), in_t(a - b) ? std::optional(static_cast<T>(a - b)) : std::nullopt);
      ASSERT_EQ(checked::multiply(x, y), in_t(a * b) ? std::optional(static_cast<T>(a * b)) : std::nullopt);
    }
  }
}

TEST(Checked, every_pair_of_signed_bytes_is_exact_or_nullopt) { expect_all_pairs_match_int<std::int8_t>(); }

TEST(Checked, every_pair_of_unsigned_bytes_is_exact_or_nullopt) {
  expect_all_pairs_match_int<std::uint8_t>();
}

TEST(Checked, add_detects_overflow) {
  constexpr auto max = highest<std::uint64_t>;
  EXPECT_EQ(checked::add(max - 1, 1), max);
  EXPECT_EQ(checked::add(max, 0), max);
  EXPECT_EQ(checked::add(max, 1), std::nullopt);
  EXPECT_EQ(checked::add(max, max), std::nullopt);
  EXPECT_EQ(checked::add(highest<std::int64_t>, 1), std::nullopt);
  EXPECT_EQ(checked::add(lowest<std::int64_t>, -1), std::nullopt);
  EXPECT_EQ(checked::add(lowest<std::int64_t>, highest<std::int64_t>), -1);
}

TEST(Checked, subtract_detects_overflow) {
  EXPECT_EQ(checked::subtract(std::uint64_t{0}, 1), std::nullopt);
  EXPECT_EQ(checked::subtract(std::uint64_t{1}, 1), 0U);
  EXPECT_EQ(checked::subtract(lowest<std::int64_t>, 1), std::nullopt);
  EXPECT_EQ(checked::subtract(std::int64_t{0}, lowest<std::int64_t>), std::nullopt);
  EXPECT_EQ(checked::subtract(std::int64_t{-1}, lowest<std::int64_t>), highest<std::int64_t>);
}

TEST(Checked, multiply_detects_overflow) {
  constexpr auto two_to_32 = std::uint64_t{1} << 32;
  EXPECT_EQ(checked::multiply(two_to_32, two_to_32), std::nullopt);
  EXPECT_EQ(checked::multiply(two_to_32, two_to_32 - 1), highest<std::uint64_t> - (two_to_32 - 1));
  EXPECT_EQ(checked::multiply(highest<std::uint64_t>, 0), 0U);
  EXPECT_EQ(checked::multiply(highest<std::uint64_t>, 1), highest<std::uint64_t>);
  EXPECT_EQ(checked::multiply(lowest<std::int64_t>, -1), std::nullopt);
  EXPECT_EQ(checked::multiply(std::int64_t{-1}, lowest<std::int64_t>), std::nullopt);
  EXPECT_EQ(checked::multiply(lowest<std::int64_t> / 2, 2), lowest<std::int64_t>);
}

TEST(Checked, narrow_keeps_the_number_or_returns_nullopt) {
  EXPECT_EQ((checked::narrow<std::uint8_t>(255)), std::uint8_t{255});
  EXPECT_EQ((checked::narrow<std::uint8_t>(256)), std::nullopt);
  EXPECT_EQ((checked::narrow<std::uint8_t>(-1)), std::nullopt);
  EXPECT_EQ((checked::narrow<std::int8_t>(-128)), std::int8_t{-128});
  EXPECT_EQ((checked::narrow<std::int8_t>(-129)), std::nullopt);
  // Conversions between signed and unsigned types of the same width must not change the sign.
  EXPECT_EQ((checked::narrow<std::int64_t>(highest<std::uint64_t>)), std::nullopt);
  EXPECT_EQ((checked::narrow<std::uint64_t>(std::int64_t{-1})), std::nullopt);
  EXPECT_EQ((checked::narrow<std::uint64_t>(highest<std::int64_t>)), (std::uint64_t{1} << 63) - 1);
}

TEST(Checked, align_up_returns_the_next_multiple) {
  for (std::uint64_t alignment = 1; alignment <= 64; alignment *= 2) {
    for (std::uint64_t value = 0; value <= 200; ++value) {
      std::uint64_t expected = value;
      while (expected % alignment != 0) ++expected;
      ASSERT_EQ(checked::align_up(value, alignment), expected) << value << " to " << alignment;
    }
  }
}

TEST(Checked, align_up_needs_a_power_of_two) {
  for (const std::uint64_t alignment : {0U, 3U, 6U, 12U, 96U}) {
    EXPECT_EQ(checked::align_up(8, alignment), std::nullopt) << alignment;
  }
}

TEST(Checked, align_up_detects_overflow) {
  constexpr auto max = highest<std::uint64_t>;
  constexpr auto top_bit = std::uint64_t{1} << 63;
  EXPECT_EQ(checked::align_up(max, 1), max);
  EXPECT_EQ(checked::align_up(max, 2), std::nullopt);
  EXPECT_EQ(checked::align_up(max - 1, 2), max - 1);
  EXPECT_EQ(checked::align_up(max - 62, 64), std::nullopt);
  EXPECT_EQ(checked::align_up(max - 63, 64), max - 63);
  EXPECT_EQ(checked::align_up(1, top_bit), top_bit);
  EXPECT_EQ(checked::align_up(top_bit, top_bit), top_bit);
  EXPECT_EQ(checked::align_up(top_bit + 1, top_bit), std::nullopt);
}

TEST(Checked, bits_to_bytes_rounds_up_and_cannot_overflow) {
  EXPECT_EQ(checked::bits_to_bytes(0), 0U);
  EXPECT_EQ(checked::bits_to_bytes(1), 1U);
  EXPECT_EQ(checked::bits_to_bytes(8), 1U);
  EXPECT_EQ(checked::bits_to_bytes(9), 2U);
  EXPECT_EQ(checked::bits_to_bytes(highest<std::uint64_t>), std::uint64_t{1} << 61);
  EXPECT_EQ(checked::bits_to_bytes(highest<std::uint64_t> - 7), (std::uint64_t{1} << 61) - 1);
}

TEST(Checked, a_range_fits_if_its_end_fits) {
  for (std::uint64_t total = 0; total <= 5; ++total) {
    for (std::uint64_t offset = 0; offset <= 6; ++offset) {
      for (std::uint64_t bytes = 0; bytes <= 6; ++bytes) {
        EXPECT_EQ(checked::range_fits(offset, bytes, total), offset + bytes <= total);
      }
    }
  }
  constexpr auto max = highest<std::uint64_t>;
  EXPECT_TRUE(checked::range_fits(0, max, max));
  EXPECT_TRUE(checked::range_fits(max, 0, max));
  EXPECT_FALSE(checked::range_fits(max, 1, max));
  EXPECT_FALSE(checked::range_fits(1, max, max));
}

TEST(Checked, all_functions_are_constexpr) {
  constexpr auto sum = checked::add(1, 2);
  constexpr auto difference = checked::subtract(0U, 1U);
  constexpr auto product = checked::multiply(3, 4);
  constexpr auto narrowed = checked::narrow<std::int8_t>(128);
  constexpr auto aligned = checked::align_up(5, 4);
  constexpr auto bytes = checked::bits_to_bytes(9);
  constexpr bool fits = checked::range_fits(1, 2, 3);
  EXPECT_EQ(sum, 3);
  EXPECT_EQ(difference, std::nullopt);
  EXPECT_EQ(product, 12);
  EXPECT_EQ(narrowed, std::nullopt);
  EXPECT_EQ(aligned, 8U);
  EXPECT_EQ(bytes, 2U);
  EXPECT_TRUE(fits);
}

TEST(Checked, bool_and_characters_are_refused) {
  EXPECT_TRUE(checked::Number<int>);
  EXPECT_TRUE(checked::Number<std::int8_t>);
  EXPECT_TRUE(checked::Number<std::uint8_t>);
  EXPECT_FALSE(checked::Number<bool>);
  EXPECT_FALSE(checked::Number<double>);
  EXPECT_FALSE(checked::Number<char>);
  EXPECT_FALSE(checked::Number<wchar_t>);
  EXPECT_FALSE(checked::Number<char8_t>);
  EXPECT_FALSE(checked::Number<char32_t>);
}

}  // namespace
}  // namespace ht::checked_test
