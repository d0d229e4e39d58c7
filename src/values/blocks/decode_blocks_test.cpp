#include "values/blocks/decode_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <htensor/dtype/encoding.hpp>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtype/block_numbers.hpp"
#include "testing/library_types.hpp"
#include "testing/shared_folder.hpp"
#include "values/blocks/decode_reference.hpp"
#include "values/blocks/iq_tables.hpp"
#include "values/targets_test.hpp"

namespace ht::decode_blocks_test {
namespace {

using Bits = std::vector<std::uint32_t>;
using Blocks = std::vector<std::uint8_t>;

// All NaNs compare equal: which of two NaNs an operation returns depends on the processor.
Bits bits_of(std::span<const float> values) {
  Bits bits;
  bits.reserve(values.size());
  for (const float value : values)
    bits.push_back(std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value));
  return bits;
}

std::size_t count_of(const Encoding& encoding, const Blocks& blocks) {
  return blocks.size() / encoding.block_bytes;
}

Bits decoded_by_reference(const Encoding& encoding, const Blocks& blocks) {
  return bits_of(reference::decode(encoding, blocks.data(), blocks.size()));
}

// Decodes at an odd address in memory of the exact size, so that AddressSanitizer detects an access outside
// of the blocks.
Bits decoded(const Encoding& encoding, const Blocks& blocks) {
  const auto bytes = std::make_unique<std::byte[]>(blocks.size() + 1);
  std::memcpy(bytes.get() + 1, blocks.data(), blocks.size());
  const std::size_t count = count_of(encoding, blocks);
  const auto values = std::make_unique<float[]>(count * encoding.block_elements);
  decode_blocks(encoding.tag, bytes.get() + 1, static_cast<std::int64_t>(count), values.get());
  return bits_of({values.get(), count * encoding.block_elements});
}

void expect_as_reference(const Encoding& encoding, const Blocks& blocks) {
  const Bits expected = decoded_by_reference(encoding, blocks);
  testing::for_each_target([&](const char* target) {
    const Bits found = decoded(encoding, blocks);
    const auto differs = std::ranges::mismatch(found, expected);
    ASSERT_TRUE(differs.in1 == found.end())
        << encoding.name << " on " << target << ": element " << differs.in1 - found.begin() << " is "
        << std::bit_cast<float>(*differs.in1) << " instead of " << std::bit_cast<float>(*differs.in2);
  });
}

class Random {
 public:
  Blocks blocks(const Encoding& encoding, std::size_t count) {
    Blocks bytes(count * encoding.block_bytes);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(engine_());
    return bytes;
  }

 private:
  std::mt19937 engine_{20261117};
};

template <class T>
void put(Blocks& blocks, std::size_t offset, T number) {
  std::memcpy(blocks.data() + offset, &number, sizeof number);
}

template <class T>
std::vector<T> read_numbers(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<T> numbers(text.size() / sizeof(T));
  std::memcpy(numbers.data(), text.data(), numbers.size() * sizeof(T));
  return numbers;
}

struct TestedEncoding {
  std::string_view name;
  bool has_ggml_values;
};

constexpr std::array tested_encodings{
    TestedEncoding{"Q4_0", true},    TestedEncoding{"Q4_1", true},   TestedEncoding{"Q5_0", true},
    TestedEncoding{"Q5_1", true},    TestedEncoding{"Q8_0", true},   TestedEncoding{"Q8_1", false},
    TestedEncoding{"Q2_K", true},    TestedEncoding{"Q3_K", true},   TestedEncoding{"Q4_K", true},
    TestedEncoding{"Q5_K", true},    TestedEncoding{"Q6_K", true},   TestedEncoding{"Q8_K", false},
    TestedEncoding{"IQ2_XXS", true}, TestedEncoding{"IQ2_XS", true}, TestedEncoding{"IQ2_S", true},
    TestedEncoding{"IQ3_XXS", true}, TestedEncoding{"IQ3_S", true},  TestedEncoding{"IQ1_S", true},
    TestedEncoding{"IQ1_M", true},   TestedEncoding{"IQ4_NL", true}, TestedEncoding{"IQ4_XS", true},
    TestedEncoding{"TQ1_0", true},   TestedEncoding{"TQ2_0", true},  TestedEncoding{"MXFP4", true},
    TestedEncoding{"NVFP4", true},   TestedEncoding{"Q1_0", true},   TestedEncoding{"Q2_0", true},
};
static_assert(tested_encodings.size() == AllEncodings::size);

TEST(DecodeBlocks, supports_exactly_the_listed_encodings) {
  for (int tag = 0; tag <= UINT8_MAX; ++tag) {
    const auto encoding = static_cast<EncodingTag>(tag);
    EXPECT_EQ(can_decode(encoding), find_encoding(encoding).has_value()) << tag;
  }
}

// ggml may be compiled with fused operations. They do not change the values: where a decoder adds to a
// product, a half has 11 significant bits, a scale at most 6 and an element at most 5, so the product fits
// the 24 bits of F32.
TEST(DecodeBlocks, matches_ggml_bit_for_bit) {
  HT_SHARED_OR_SKIP(folder, "vectors/decode");
  for (const TestedEncoding& tested : tested_encodings) {
    const auto encoding = find_encoding(tested.name).value();
    const std::string name(tested.name);
    ASSERT_EQ(std::filesystem::exists(folder / (name + ".blocks")), tested.has_ggml_values) << name;
    if (!tested.has_ggml_values) continue;
    const auto blocks = read_numbers<std::uint8_t>(folder / (name + ".blocks"));
    const Bits expected = bits_of(read_numbers<float>(folder / (name + ".f32")));
    ASSERT_EQ(expected.size(), count_of(encoding, blocks) * encoding.block_elements) << name;
    ASSERT_FALSE(expected.empty()) << name;
    EXPECT_EQ(decoded_by_reference(encoding, blocks), expected) << name;
    testing::for_each_target([&](const char* target) {
      EXPECT_EQ(decoded(encoding, blocks), expected) << name << " on " << target;
    });
  }
}

TEST(DecodeBlocks, random_blocks_have_the_same_values_on_every_target) {
  Random random;
  for (const Encoding& encoding : library_encodings()) {
    for (const std::size_t count : {1U, 2U, 3U, 17U})
      expect_as_reference(encoding, random.blocks(encoding, count));
  }
}

// Zeros, subnormals, the smallest and the largest normal numbers, infinities, NaNs, and one ordinary number.
constexpr std::uint16_t extreme_halves[] = {0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x8401, 0x3555,
                                            0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFDFF};

TEST(DecodeBlocks, extreme_scales_have_the_same_values_on_every_target) {
  Random random;
  for (const Encoding& encoding : library_encodings()) {
    if (encoding.tag == IQ1_M::tag) continue;
    for (const std::uint16_t first : extreme_halves) {
      for (const std::uint16_t second : {std::uint16_t{0x0001}, first, std::uint16_t{0xFC00}}) {
        Blocks block = random.blocks(encoding, 1);
        std::uint16_t half = first;
        for (const BlockNumber& number : numbers_of_block(encoding.tag)) {
          if (number.bytes != 2) continue;
          put(block, number.offset, half);
          half = second;
        }
        expect_as_reference(encoding, block);
      }
    }
  }
}

TEST(DecodeBlocks, extreme_scales_of_iq1_m_have_the_same_values_on_every_target) {
  Random random;
  const auto encoding = find_encoding(IQ1_M::tag).value();
  for (const std::uint16_t half : extreme_halves) {
    Blocks block = random.blocks(encoding, 1);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::uint32_t quarter = (half >> (4 * i)) & 15U;
      block[49 + 2 * i] = static_cast<std::uint8_t>((block[49 + 2 * i] & 15U) | (quarter << 4));
    }
    expect_as_reference(encoding, block);
  }
}

TEST(DecodeBlocks, every_one_byte_scale_has_the_same_values_on_every_target) {
  Random random;
  for (const auto& [tag, scales] : {std::pair{MXFP4::tag, 1U}, std::pair{NVFP4::tag, 4U}}) {
    const auto encoding = find_encoding(tag).value();
    Blocks blocks = random.blocks(encoding, 256);
    for (std::size_t code = 0; code < 256; ++code) {
      for (std::size_t i = 0; i < scales; ++i) {
        blocks[code * encoding.block_bytes + i] = static_cast<std::uint8_t>(code + i);
      }
    }
    expect_as_reference(encoding, blocks);
  }
}

TEST(DecodeBlocks, blocks_of_a_pattern_have_the_same_values_on_every_target) {
  // All bytes are equal or count up, so that a decoder that confuses adjacent fields is detected.
  for (const Encoding& encoding : library_encodings()) {
    Blocks blocks;
    for (std::size_t pattern = 0; pattern < 48; ++pattern) {
      for (std::size_t i = 0; i < encoding.block_bytes; ++i) {
        blocks.push_back(static_cast<std::uint8_t>(pattern * 37 + i * (pattern % 8)));
      }
    }
    expect_as_reference(encoding, blocks);
  }
}

std::vector<float> values_of(EncodingTag tag, const Blocks& block) {
  const auto encoding = find_encoding(tag).value();
  EXPECT_EQ(block.size(), encoding.block_bytes);
  std::vector<float> values(encoding.block_elements);
  decode_blocks(tag, reinterpret_cast<const std::byte*>(block.data()), 1, values.data());
  return values;
}

TEST(DecodeBlocks, elements_of_q8_1_are_the_products_of_scale_and_integer) {
  Blocks block(Q8_1::block_bytes);
  put(block, 0, std::uint16_t{0x3800});  // 0.5
  put(block, 2, std::uint16_t{0x7E00});  // the decoder ignores the sum
  for (std::size_t i = 0; i < 32; ++i) block[4 + i] = static_cast<std::uint8_t>(8 * i - 128);
  const auto values = values_of(Q8_1::tag, block);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(values[i], 4.F * static_cast<float>(i) - 64.F);
}

TEST(DecodeBlocks, elements_of_q8_k_are_the_products_of_scale_and_integer) {
  for (const float d :
       {0.1F, -3e38F, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::infinity()}) {
    Blocks block(Q8_K::block_bytes, 0xFF);
    put(block, 0, d);
    for (std::size_t i = 0; i < 256; ++i) block[4 + i] = static_cast<std::uint8_t>(i);
    const auto values = values_of(Q8_K::tag, block);
    std::vector<float> expected(256);
    for (int i = 0; i < 256; ++i) {
      expected[static_cast<std::size_t>(i)] = d * static_cast<float>(i < 128 ? i : i - 256);
    }
    EXPECT_EQ(bits_of(values), bits_of(expected)) << d;
  }
}

TEST(DecodeBlocks, mxfp4_has_powers_of_two_and_no_nan) {
  Blocks block(MXFP4::block_bytes, 0x91);
  const auto first_and_last = [&](std::uint8_t exponent) {
    block[0] = exponent;
    const auto values = values_of(MXFP4::tag, block);
    return std::pair(values.front(), values.back());
  };
  EXPECT_EQ(first_and_last(0), std::pair(0x1p-128F, -0x1p-128F));
  EXPECT_EQ(first_and_last(1), std::pair(0x1p-127F, -0x1p-127F));
  EXPECT_EQ(first_and_last(2), std::pair(0x1p-126F, -0x1p-126F));
  EXPECT_EQ(first_and_last(128), std::pair(1.F, -1.F));
  EXPECT_EQ(first_and_last(255), std::pair(0x1p127F, -0x1p127F));
}

TEST(DecodeBlocks, nvfp4_ignores_the_top_bit_of_a_scale_and_decodes_scale_0x7f_as_0) {
  Blocks block(NVFP4::block_bytes, 0x22);
  block[0] = 0x7F;
  block[1] = 0xFF;
  block[2] = 0xB8;
  block[3] = 0x01;
  const auto values = values_of(NVFP4::tag, block);
  EXPECT_EQ(values[0], 0.F);
  EXPECT_EQ(values[16], 480.F);
  EXPECT_EQ(values[32], 1.F);
  EXPECT_EQ(values[63], 0x1p-9F);
}

TEST(DecodeBlocks, a_count_of_0_accesses_no_memory) {
  for (const Encoding& encoding : library_encodings()) decode_blocks(encoding.tag, nullptr, 0, nullptr);
}

TEST(DecodeBlocks, byte_swapped_blocks_are_decoded_after_they_are_swapped_back) {
  HT_SHARED_OR_SKIP(folder, "vectors/decode");
  for (const TestedEncoding& tested : tested_encodings) {
    if (!tested.has_ggml_values) continue;
    const auto encoding = find_encoding(tested.name).value();
    auto blocks = read_numbers<std::uint8_t>(folder / (std::string(tested.name) + ".blocks"));
    const auto swap = [&] {
      for (std::size_t start = 0; start < blocks.size(); start += encoding.block_bytes) {
        for (const BlockNumber& number : numbers_of_block(encoding.tag)) {
          const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(start + number.offset);
          std::reverse(first, first + number.bytes);
        }
      }
    };
    const Bits expected = decoded(encoding, blocks);
    swap();
    EXPECT_EQ(decoded(encoding, blocks) == expected, numbers_of_block(encoding.tag).empty()) << tested.name;
    swap();
    EXPECT_EQ(decoded(encoding, blocks), expected) << tested.name;
  }
}

template <class T>
std::vector<T> read_text(const std::filesystem::path& path, int base) {
  std::ifstream file(path);
  std::vector<T> numbers;
  for (std::string line; std::getline(file, line);) {
    numbers.push_back(static_cast<T>(base == 16 ? std::stoull(line, nullptr, 16)
                                                : static_cast<unsigned long long>(std::stoll(line))));
  }
  return numbers;
}

template <class T, std::size_t Count>
void expect_table(const std::filesystem::path& path, int base, const std::array<T, Count>& table) {
  EXPECT_EQ(read_text<T>(path, base), std::vector<T>(table.begin(), table.end())) << path;
}

TEST(IqTables, are_the_code_books_of_ggml) {
  HT_SHARED_OR_SKIP(folder, "formats/iq_tables");
  expect_table(folder / "iq1s_grid.txt", 16, iq::iq1s_grid);
  expect_table(folder / "iq2xxs_grid.txt", 16, iq::iq2xxs_grid);
  expect_table(folder / "iq2xs_grid.txt", 16, iq::iq2xs_grid);
  expect_table(folder / "iq2s_grid.txt", 16, iq::iq2s_grid);
  expect_table(folder / "iq3xxs_grid.txt", 16, iq::iq3xxs_grid);
  expect_table(folder / "iq3s_grid.txt", 16, iq::iq3s_grid);
  expect_table(folder / "ksigns_iq2xs.txt", 10, iq::iq_signs);
  expect_table(folder / "kvalues_iq4nl.txt", 10, iq::iq4nl_values);
  expect_table(folder / "kvalues_mxfp4.txt", 10, iq::fp4_values);
}

}  // namespace
}  // namespace ht::decode_blocks_test
