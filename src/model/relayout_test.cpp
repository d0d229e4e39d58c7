#include "model/relayout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <htensor/dtype/dtypes.hpp>
#include <numeric>
#include <string>

#include "model/test_models.hpp"

namespace ht::relayout_test {
namespace {

std::vector<std::byte> bytes(std::string_view text) {
  const auto all = bytes_of(text);
  return {all.begin(), all.end()};
}

std::string text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::string element(std::string_view pattern, int bits) {
  return text_of(splat_element(bytes_of(pattern), bits));
}

Relayout by_columns(std::vector<std::int64_t> dims, std::uint32_t unit_bytes) {
  return {.unit_bytes = unit_bytes, .numbers = {}, .column_major = std::move(dims)};
}

TEST(Relayout, element_of_a_splat_is_its_pattern_or_repeats_it) {
  EXPECT_EQ(element("abcd", 32), "abcd");
  EXPECT_EQ(element("a", 8), "a");
  EXPECT_EQ(element("a", 32), "aaaa");
  EXPECT_EQ(element("ab", 64), "abababab");
  EXPECT_EQ(element("aa", 24), "aaa");
}

TEST(Relayout, element_of_a_splat_is_the_period_of_a_longer_pattern) {
  EXPECT_EQ(element("aaaa", 8), "a");
  EXPECT_EQ(element("abababab", 16), "ab");
  EXPECT_EQ(element("abababab", 32), "abab");
  EXPECT_EQ(element("abcdefghabcdefgh", 64), "abcdefgh");
}

TEST(Relayout, differing_elements_have_no_splat_element) {
  EXPECT_EQ(element("aaab", 8), "");
  EXPECT_EQ(element("abac", 16), "");
  EXPECT_EQ(element("abcdefghabcdefgX", 64), "");
  // Elements of 24 bits in a pattern of 16 bits alternate between "aba" and "bab".
  EXPECT_EQ(element("ab", 24), "");
  EXPECT_EQ(element("aba", 16), "");
  EXPECT_EQ(element("abcabcabcabcabca", 24), "");
}

TEST(Relayout, packed_elements_have_no_splat_element) {
  EXPECT_EQ(element("a", 4), "");
  EXPECT_EQ(element("aa", 6), "");
}

TEST(Relayout, fills_with_whole_and_partial_patterns) {
  const auto filled = [](std::size_t size, std::string_view pattern) {
    std::vector<std::byte> to(size);
    fill_with(to, bytes_of(pattern));
    return text_of(to);
  };
  EXPECT_EQ(filled(0, "ab"), "");
  EXPECT_EQ(filled(1, "ab"), "a");
  EXPECT_EQ(filled(2, "ab"), "ab");
  EXPECT_EQ(filled(7, "abc"), "abcabca");
  EXPECT_EQ(filled(33, "abcdefghijklmnop"), "abcdefghijklmnopabcdefghijklmnopa");
  std::vector<std::byte> to(9);
  fill_with(to, bytes_of("abcd"), 7);
  EXPECT_EQ(text_of(to), "dabcdabcd");
}

TEST(Relayout, column_major_elements_are_whole_bytes) {
  const std::int64_t dims[] = {2, 3};
  Entry entry{.name = "t", .dims = dims, .order = ElementOrder::column_major};
  const auto expect_refused = [&](DTypeTag dtype, EncodingTag encoding, std::uint64_t bytes) {
    entry.dtype = dtype;
    entry.encoding = encoding;
    entry.bytes = bytes;
    const auto error = testing::refusal(relayout_of(entry), ErrorCode::unsupported_encoding,
                                        "column_major_elements_are_whole_bytes");
    EXPECT_EQ(error.tensor(), "t");
  };
  expect_refused(F4::tag, EncodingTag::dense, 3);
  expect_refused(F6_E2M3::tag, EncodingTag::dense, 5);
  // User-defined dtypes of 12 and of 4 bits.
  expect_refused(user_tag(0), EncodingTag::dense, 9);
  expect_refused(user_tag(0), EncodingTag::dense, 3);
  expect_refused(DTypeTag::invalid, Q8_0::tag, 34);
  entry.dtype = F4::tag;
  entry.encoding = EncodingTag::dense;
  entry.bytes = 3;
  entry.splat = bytes_of("a");
  EXPECT_EQ(relayout_of(entry).value(), nullptr) << "the elements of a splat have no order";
}

// The parser of a user-defined format may state a size that contradicts the shape.
TEST(Relayout, is_null_for_stored_bytes_without_elements) {
  const std::int64_t dims[] = {0, 3};
  const Entry entry{.name = "t", .dtype = F32::tag, .dims = dims, .byte_order = ByteOrder::big, .bytes = 4};
  EXPECT_EQ(relayout_of(entry).value(), nullptr);
}

TEST(Relayout, column_major_becomes_row_major) {
  const auto copied = [](std::string_view from, std::vector<std::int64_t> dims, std::uint32_t element_bytes) {
    std::vector<std::byte> to(from.size());
    copy_units(to, bytes_of(from), by_columns(std::move(dims), element_bytes), 0);
    return text_of(to);
  };
  EXPECT_EQ(copied("abcd", {}, 4), "abcd");
  EXPECT_EQ(copied("abcdef", {3}, 2), "abcdef");
  EXPECT_EQ(copied("abcdef", {2, 3}, 1), "acebdf");
  EXPECT_EQ(copied("a1b2c3d4e5f6", {3, 2}, 2), "a1d4b2e5c3f6");
  EXPECT_EQ(copied("AaaBbbCccDdd", {2, 2}, 3), "AaaCccBbbDdd");
  EXPECT_EQ(copied("", {0, 3}, 4), "");
  EXPECT_EQ(copied("", {2, 0, 3}, 1), "");
  EXPECT_EQ(copied("abcdef", {1, 2, 1, 3}, 1), "acebdf");
}

TEST(Relayout, column_major_of_rank_4_is_transposed_by_index) {
  std::vector<std::byte> from(120);
  std::vector<std::byte> to(120);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  copy_units(to, from, by_columns({2, 3, 4, 5}, 1), 0);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t a = i / 60;
    const std::size_t b = i / 20 % 3;
    const std::size_t c = i / 5 % 4;
    const std::size_t d = i % 5;
    EXPECT_EQ(to[i], static_cast<std::byte>(a + 2 * (b + 3 * (c + 4 * d)))) << i;
  }
}

TEST(Relayout, column_major_becomes_row_major_from_any_element_on) {
  const auto relayout = by_columns({2, 3, 4}, 2);
  std::vector<std::byte> from(48);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  std::vector<std::byte> all(from.size());
  copy_units(all, from, relayout, 0);
  for (std::size_t first = 0; first < 24; ++first) {
    for (std::size_t count = 0; first + count <= 24; ++count) {
      std::vector<std::byte> to(2 * count);
      copy_units(to, from, relayout, first);
      EXPECT_TRUE(std::ranges::equal(to, Bytes(all).subspan(2 * first, 2 * count))) << first << " " << count;
    }
  }
}

TEST(Relayout, swaps_the_bytes_of_each_number) {
  const auto reversed = [](std::string_view text, std::uint16_t number_bytes) {
    auto to = bytes(text);
    swap_numbers(to, {.unit_bytes = number_bytes, .numbers = {{0, number_bytes}}, .column_major = {}});
    return text_of(to);
  };
  EXPECT_EQ(reversed("abcdefgh", 1), "abcdefgh");
  EXPECT_EQ(reversed("abcdefgh", 2), "badcfehg");
  EXPECT_EQ(reversed("abcdefgh", 4), "dcbahgfe");
  EXPECT_EQ(reversed("abcdefgh", 8), "hgfedcba");
  EXPECT_EQ(reversed("", 8), "");
  auto pairs = bytes("abcdefgh");
  swap_numbers(pairs, {.unit_bytes = 4, .numbers = {{0, 2}, {2, 2}}, .column_major = {}});
  EXPECT_EQ(text_of(pairs), "badcfehg");
}

}  // namespace
}  // namespace ht::relayout_test
