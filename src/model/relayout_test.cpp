#include "model/relayout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace ht {
namespace {

std::vector<std::byte> bytes(std::string_view text) {
  const auto all = bytes_of(text);
  return {all.begin(), all.end()};
}

std::string text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

std::string element(std::string_view pattern, int bits) {
  return text_of(splat_element(bytes_of(pattern), bits));
}

TEST(Relayout, element_of_a_splat_is_its_pattern_or_repeats_it) {
  EXPECT_EQ(element("abcd", 32), "abcd");
  EXPECT_EQ(element("a", 8), "a");
  EXPECT_EQ(element("a", 32), "aaaa");
  EXPECT_EQ(element("ab", 64), "abababab");
  EXPECT_EQ(element("aa", 24), "aaa");
}

TEST(Relayout, element_of_a_splat_is_what_a_longer_pattern_repeats) {
  EXPECT_EQ(element("aaaa", 8), "a");
  EXPECT_EQ(element("abababab", 16), "ab");
  EXPECT_EQ(element("abababab", 32), "abab");
  EXPECT_EQ(element("abcdefghabcdefgh", 64), "abcdefgh");
}

TEST(Relayout, elements_that_differ_are_no_element) {
  EXPECT_EQ(element("aaab", 8), "");
  EXPECT_EQ(element("abac", 16), "");
  EXPECT_EQ(element("abcdefghabcdefgX", 64), "");
  // Elements of 24 bits over a pattern of 16 begin with "aba" and go on with "bab".
  EXPECT_EQ(element("ab", 24), "");
  EXPECT_EQ(element("aba", 16), "");
  EXPECT_EQ(element("abcabcabcabcabca", 24), "");
}

TEST(Relayout, elements_that_share_bytes_are_no_element) {
  EXPECT_EQ(element("a", 4), "");
  EXPECT_EQ(element("aa", 6), "");
}

TEST(Relayout, fills_with_whole_and_cut_patterns) {
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

TEST(Relayout, column_major_becomes_row_major) {
  const auto copied = [](std::string_view from, std::vector<std::int64_t> dims, std::size_t element_bytes) {
    std::vector<std::byte> to(from.size());
    copy_to_row_major(to, bytes_of(from), dims, element_bytes);
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

TEST(Relayout, column_major_of_rank_4_goes_where_its_index_says) {
  const std::vector<std::int64_t> dims{2, 3, 4, 5};
  std::vector<std::byte> from(120);
  std::vector<std::byte> to(120);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  copy_to_row_major(to, from, dims, 1);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t a = i / 60;
    const std::size_t b = i / 20 % 3;
    const std::size_t c = i / 5 % 4;
    const std::size_t d = i % 5;
    EXPECT_EQ(to[i], static_cast<std::byte>(a + 2 * (b + 3 * (c + 4 * d)))) << i;
  }
}

TEST(Relayout, column_major_becomes_row_major_from_any_element_on) {
  const std::vector<std::int64_t> dims{2, 3, 4};
  std::vector<std::byte> from(48);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  std::vector<std::byte> all(from.size());
  copy_to_row_major(all, from, dims, 2);
  for (std::size_t first = 0; first < 24; ++first) {
    for (std::size_t count = 0; first + count <= 24; ++count) {
      std::vector<std::byte> to(2 * count);
      copy_to_row_major(to, from, dims, 2, first);
      EXPECT_TRUE(std::ranges::equal(to, Bytes(all).subspan(2 * first, 2 * count))) << first << " " << count;
    }
  }
}

TEST(Relayout, swaps_the_bytes_of_each_number) {
  const auto reversed = [](std::string_view text, std::size_t number_bytes) {
    auto to = bytes(text);
    swap_bytes(to, number_bytes);
    return text_of(to);
  };
  EXPECT_EQ(reversed("abcdefgh", 1), "abcdefgh");
  EXPECT_EQ(reversed("abcdefgh", 2), "badcfehg");
  EXPECT_EQ(reversed("abcdefgh", 4), "dcbahgfe");
  EXPECT_EQ(reversed("abcdefgh", 8), "hgfedcba");
  EXPECT_EQ(reversed("", 8), "");
  EXPECT_EQ(reversed("abc", 0), "abc");
}

}  // namespace
}  // namespace ht
