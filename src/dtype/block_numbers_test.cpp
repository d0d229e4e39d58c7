#include <gtest/gtest.h>

#include <algorithm>
#include <htensor/dtype/encoding.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "dtype/block_numbers.hpp"
#include "testing/library_types.hpp"

namespace ht::block_numbers_test {
namespace {

TEST(BlockNumbers, are_inside_their_block_and_disjoint) {
  for (const Encoding& encoding : library_encodings()) {
    std::uint32_t end = 0;
    for (const BlockNumber& number : numbers_of_block(encoding.tag)) {
      EXPECT_TRUE(number.bytes == 2 || number.bytes == 4) << encoding.name;
      EXPECT_GE(number.offset, end) << encoding.name;
      end = number.offset + static_cast<std::uint32_t>(number.bytes);
    }
    EXPECT_LE(end, encoding.block_bytes) << encoding.name;
  }
}

TEST(BlockNumbers, byte_swapping_twice_is_the_identity) {
  for (const Encoding& encoding : library_encodings()) {
    std::vector<int> block(encoding.block_bytes);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<int>(i);
    const auto before = block;
    const auto swap = [&] {
      for (const BlockNumber& number : numbers_of_block(encoding.tag)) {
        std::reverse(block.begin() + number.offset, block.begin() + number.offset + number.bytes);
      }
    };
    swap();
    EXPECT_EQ(block == before, numbers_of_block(encoding.tag).empty()) << encoding.name;
    swap();
    EXPECT_EQ(block, before) << encoding.name;
  }
}

// The bytes of a block that belong to numbers of 2 or 4 bytes, counted in ggml's definitions of the blocks.
TEST(BlockNumbers, are_all_halves_floats_and_words_of_a_block) {
  struct Counted {
    std::string_view name;
    int bytes;
  };
  constexpr Counted expected[] = {
      {"Q4_0", 2},   {"Q4_1", 4},  {"Q5_0", 6},     {"Q5_1", 8},    {"Q8_0", 2},     {"Q8_1", 4},
      {"Q2_K", 4},   {"Q3_K", 2},  {"Q4_K", 4},     {"Q5_K", 4},    {"Q6_K", 2},     {"Q8_K", 36},
      {"MXFP4", 0},  {"NVFP4", 0}, {"IQ2_XXS", 66}, {"IQ2_XS", 66}, {"IQ3_XXS", 34}, {"IQ1_S", 18},
      {"IQ4_NL", 2}, {"IQ3_S", 2}, {"IQ2_S", 2},    {"IQ4_XS", 4},  {"IQ1_M", 8},    {"TQ1_0", 2},
      {"TQ2_0", 2},  {"Q1_0", 2},  {"Q2_0", 2},
  };
  std::set<std::string_view> names;
  for (const auto& [name, bytes] : expected) {
    names.insert(name);
    int found = 0;
    for (const BlockNumber& number : numbers_of_block(find_encoding(name).value().tag)) found += number.bytes;
    EXPECT_EQ(found, bytes) << name;
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(AllEncodings::size));
}

TEST(BlockNumbers, dense_and_unknown_tags_have_no_numbers) {
  EXPECT_TRUE(numbers_of_block(EncodingTag::dense).empty());
  EXPECT_TRUE(numbers_of_block(static_cast<EncodingTag>(4)).empty());
  EXPECT_TRUE(numbers_of_block(static_cast<EncodingTag>(255)).empty());
}

}  // namespace
}  // namespace ht::block_numbers_test
