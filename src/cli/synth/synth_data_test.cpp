#include "cli/synth/synth.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <htensor/dtype/scalar.hpp>
#include <vector>

namespace ht::cli::synth_data_test {
namespace {

// Decoders that follow the definitions of the encodings, without code or constants of the encoders.
double half_at(Bytes block, std::size_t at) {
  return static_cast<float>(F16::Element::from_bits(load_le<std::uint16_t>(block.subspan(at))));
}

unsigned byte_at(Bytes block, std::size_t at) { return static_cast<unsigned>(block[at]); }

double decode_q4_k(Bytes block, std::size_t i) {
  const std::size_t j = i / 32;
  const auto scales = block.subspan(4, 12);
  const unsigned scale =
      j < 4 ? byte_at(scales, j) & 63U : (byte_at(scales, j + 4) & 15U) | (byte_at(scales, j - 4) >> 6 << 4);
  const unsigned min =
      j < 4 ? byte_at(scales, j + 4) & 63U : (byte_at(scales, j + 4) >> 4) | (byte_at(scales, j) >> 6 << 4);
  const unsigned pair = byte_at(block, 16 + i / 64 * 32 + i % 32);
  const unsigned quant = j % 2 == 0 ? pair & 15U : pair >> 4;
  return half_at(block, 0) * scale * quant - half_at(block, 2) * min;
}

double decode_q6_k(Bytes block, std::size_t i) {
  const std::size_t half = i / 128;
  const std::size_t quarter = i % 128 / 32;
  const unsigned low = byte_at(block, half * 64 + quarter % 2 * 32 + i % 32) >> (quarter / 2 * 4) & 15U;
  const unsigned high = byte_at(block, 128 + half * 32 + i % 32) >> (quarter * 2) & 3U;
  const auto scale = static_cast<std::int8_t>(block[192 + i / 16]);
  return half_at(block, 208) * scale * (static_cast<int>(low | high << 4) - 32);
}

double decode_q8_0(Bytes block, std::size_t i) {
  return half_at(block, 0) * static_cast<std::int8_t>(block[2 + i]);
}

struct Kind {
  const char* name;
  double (*decode)(Bytes block, std::size_t element);
};

class SynthBlocks : public ::testing::TestWithParam<Kind> {
 protected:
  [[nodiscard]] std::vector<std::byte> blocks(std::uint64_t seed, std::uint64_t first,
                                              std::size_t count) const {
    std::vector<std::byte> bytes(count * encoding_.block_bytes);
    EXPECT_TRUE(fill_blocks(encoding_.tag, seed, first, bytes));
    return bytes;
  }

  Encoding encoding_ = find_encoding(GetParam().name).value();
};

INSTANTIATE_TEST_SUITE_P(All, SynthBlocks,
                         ::testing::Values(Kind{"Q4_K", decode_q4_k}, Kind{"Q6_K", decode_q6_k},
                                           Kind{"Q8_0", decode_q8_0}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(SynthBlocks, decode_to_normally_distributed_weights) {
  const std::size_t count = 256000 / encoding_.block_elements;
  const auto bytes = blocks(7, 0, count);
  double sum = 0;
  double squares = 0;
  double fourth_powers = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto block = Bytes(bytes).subspan(i * encoding_.block_bytes, encoding_.block_bytes);
    double of_block = 0;
    for (std::size_t j = 0; j < encoding_.block_elements; ++j) {
      const double value = GetParam().decode(block, j);
      ASSERT_TRUE(std::isfinite(value));
      sum += value;
      of_block += value * value;
      fourth_powers += value * value * value * value;
    }
    const double deviation = std::sqrt(of_block / encoding_.block_elements);
    EXPECT_GT(deviation, 0.01) << i;
    EXPECT_LT(deviation, 0.04) << i;
    squares += of_block;
  }
  const double elements = static_cast<double>(encoding_.block_elements) * static_cast<double>(count);
  EXPECT_NEAR(sum / elements, 0, 0.0002);
  EXPECT_NEAR(std::sqrt(squares / elements), 0.02, 0.001);
  // The kurtosis of a uniform distribution is 1.8, that of a normal distribution is 3.
  EXPECT_NEAR(fourth_powers * elements / (squares * squares), 3, 0.5);
}

TEST_P(SynthBlocks, do_not_depend_on_the_piece_size) {
  // Blocks need not begin at a multiple of their size, as there may be tensors of any size before.
  constexpr std::uint64_t first = 24;
  auto pieces = blocks(7, first, 3);
  const auto rest = blocks(7, first + 3 * encoding_.block_elements, 5);
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  EXPECT_EQ(pieces, blocks(7, first, 8));
  EXPECT_NE(pieces, blocks(8, first, 8));
  EXPECT_NE(blocks(7, 0, 1), blocks(7, 256, 1));
}

TEST(UnsupportedSynthBlocks, synth_supports_the_encoding) {
  std::vector<std::byte> bytes(18);
  const auto filled = fill_blocks(find_encoding("Q4_0")->tag, 0, 0, bytes);
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code(), ErrorCode::unsupported_encoding);
  EXPECT_EQ(filled.error().rule(), "synth_supports_the_encoding");
}

}  // namespace
}  // namespace ht::cli::synth_data_test
