#include "values/blocks/encode_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <htensor/dtype/encoding.hpp>
#include <limits>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

#include "testing/shared_folder.hpp"
#include "values/blocks/decode_reference.hpp"

namespace ht::encode_blocks_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float largest_float = std::numeric_limits<float>::max();

using Floats = std::vector<float>;
using Blocks = std::vector<std::byte>;

Encoding encoding_named(const std::string& name) { return find_encoding(name).value(); }

// All encodings that can be written.
const std::vector<Encoding>& encodings() {
  static const std::vector<Encoding> all{
      encoding_named("Q8_0"), encoding_named("Q4_0"), encoding_named("Q4_1"),
      encoding_named("Q5_0"), encoding_named("Q5_1"), encoding_named("MXFP4"),
      encoding_named("Q4_K"), encoding_named("Q5_K"), encoding_named("Q6_K"),
  };
  return all;
}

Blocks encode(const Encoding& encoding, const Floats& values) {
  Blocks blocks(values.size() / encoding.block_elements * encoding.block_bytes);
  encode_blocks(encoding.tag, values.data(), static_cast<std::int64_t>(values.size()), blocks.data());
  return blocks;
}

Floats decode(const Encoding& encoding, const Blocks& blocks) {
  return reference::decode(encoding, reinterpret_cast<reference::Block>(blocks.data()), blocks.size());
}

Floats round_trip(const Encoding& encoding, const Floats& values) {
  return decode(encoding, encode(encoding, values));
}

// A random generator whose bits are the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t mixed = (state_ ^ state_ >> 29) * 0x9e3779b97f4a7c15U;
    return static_cast<std::uint32_t>(mixed >> 32);
  }
  std::uint32_t below(std::uint32_t limit) { return bits() % limit; }
  // Returns a number between 0 and 1, both excluded.
  double uniform() { return (static_cast<double>(bits()) + 0.5) * 0x1p-32; }
  double gaussian() {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

Floats floats(std::size_t count, const std::function<double()>& next) {
  Floats values(count);
  for (float& value : values) value = static_cast<float>(next());
  return values;
}

Floats sample(const std::string& distribution, std::size_t count) {
  Random random(20261117);
  if (distribution == "gaussian") return floats(count, [&] { return random.gaussian(); });
  if (distribution == "laplace") {
    return floats(count, [&] { return std::log(random.uniform()) * (random.below(2) == 0 ? 1 : -1); });
  }
  return floats(count, [&] { return random.gaussian() * 0.02 * (random.below(1000) == 0 ? 20 : 1); });
}

// Values up to 0.5 in magnitude, and one value in fifty up to 8. They are computed exactly from integers, so
// they are the same on every machine.
Floats values_with_outliers(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  return floats(count, [&] {
    const double small = static_cast<double>(random.below(1U << 20)) * 0x1p-20 - 0.5;
    return small * (random.below(50) == 0 ? 16 : 1);
  });
}

double relative_rms(const Floats& expected, const Floats& found) {
  double errors = 0;
  double squares = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = static_cast<double>(found[i]) - static_cast<double>(expected[i]);
    errors += error * error;
    squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(errors / squares);
}

TEST(EncodeBlocks, reports_the_supported_encodings) {
  std::size_t known = 0;
  for (int number = 0; number < 256; ++number) known += can_encode(static_cast<EncodingTag>(number)) ? 1 : 0;
  EXPECT_EQ(known, encodings().size());
  for (const Encoding& encoding : encodings()) EXPECT_TRUE(can_encode(encoding.tag)) << encoding.name;
}

struct RmsBound {
  std::string encoding;
  double gaussian;
  double gaussian_outliers;
  double laplace;
};

// Each bound is 1 % above the error that was measured for this encoder.
TEST(EncodeBlocks, error_does_not_grow) {
  const std::vector<RmsBound> bounds{
      {"Q8_0", 0.00541, 0.00803, 0.00672}, {"Q4_0", 0.08225, 0.11587, 0.10197},
      {"Q4_1", 0.07073, 0.07998, 0.08349}, {"Q5_0", 0.04081, 0.05988, 0.05083},
      {"Q5_1", 0.03458, 0.03890, 0.04075}, {"MXFP4", 0.11337, 0.13938, 0.12201},
      {"Q4_K", 0.07125, 0.08099, 0.08432}, {"Q5_K", 0.03547, 0.04013, 0.04200},
      {"Q6_K", 0.01682, 0.02292, 0.02049},
  };
  ASSERT_EQ(bounds.size(), encodings().size());
  const auto check = [&](const std::string& distribution, double RmsBound::* limit) {
    const Floats values = sample(distribution, 1 << 14);
    for (const RmsBound& bound : bounds) {
      EXPECT_LE(relative_rms(values, round_trip(encoding_named(bound.encoding), values)), bound.*limit)
          << bound.encoding << ", " << distribution;
    }
  };
  check("gaussian", &RmsBound::gaussian);
  check("gaussian_outliers", &RmsBound::gaussian_outliers);
  check("laplace", &RmsBound::laplace);
}

TEST(EncodeBlocks, error_is_at_most_2_per_cent_above_that_of_ggml) {
  HT_SHARED_OR_SKIP(list, "vectors/encode/rms.tsv");
  std::ifstream file(list);
  std::string line;
  std::size_t compared = 0;
  std::string sampled;
  Floats values;
  while (std::getline(file, line)) {
    std::istringstream row(line);
    std::string distribution;
    std::string name;
    double ggml = 0;
    if (!(row >> distribution >> name >> ggml) || !can_encode(find_encoding(name).value().tag)) continue;
    if (distribution != sampled) values = sample(distribution, 1 << 16);
    sampled = distribution;
    EXPECT_LE(relative_rms(values, round_trip(encoding_named(name), values)), ggml * 1.02) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 3 * encodings().size());
}

// Bounds the error of an element by the sum of three terms: `of_largest` times the largest magnitude of its
// row, `of_range` times the range of its row, and `of_block` times the largest magnitude of its block. The
// elements of a row share a scale.
struct ElementBound {
  std::string encoding;
  std::size_t row;
  float of_largest;
  float of_range;
  float of_block;
};

TEST(EncodeBlocks, error_of_an_element_is_bounded_by_its_block) {
  const std::vector<ElementBound> bounds{
      {"Q8_0", 32, 1 / 252.0F, 0, 0},          {"Q4_0", 32, 1 / 6.0F, 0, 0},
      {"Q4_1", 32, 1 / 2048.0F, 1 / 15.0F, 0}, {"Q5_0", 32, 1 / 14.0F, 0, 0},
      {"Q5_1", 32, 1 / 2048.0F, 1 / 31.0F, 0}, {"MXFP4", 32, 1 / 4.0F, 0, 0},
      {"Q4_K", 32, 0, 1 / 15.0F, 1 / 63.0F},   {"Q5_K", 32, 0, 1 / 31.0F, 1 / 63.0F},
      {"Q6_K", 16, 1 / 60.0F, 0, 1 / 127.0F},
  };
  ASSERT_EQ(bounds.size(), encodings().size());
  Random random(3);
  Floats values = values_with_outliers(1 << 13, 4);
  // Some rows are shifted away from zero, some are scaled.
  for (std::size_t row = 0; row < values.size(); row += 16) {
    const float scale = random.below(4) == 0 ? 0.01F : 1;
    const float shift = static_cast<float>(random.below(5)) - 2;
    for (std::size_t i = row; i < row + 16; ++i) values[i] = (values[i] + shift) * scale;
  }
  for (const ElementBound& bound : bounds) {
    const Encoding encoding = encoding_named(bound.encoding);
    const Floats found = round_trip(encoding, values);
    const std::size_t elements = encoding.block_elements;
    for (std::size_t row = 0; row < values.size(); row += bound.row) {
      const auto [low, high] =
          std::minmax_element(&values[row], &values[row] + static_cast<std::ptrdiff_t>(bound.row));
      const std::size_t block = row / elements * elements;
      float block_largest = 0;
      for (std::size_t i = block; i < block + elements; ++i)
        block_largest = std::max(block_largest, std::abs(values[i]));
      const float limit = bound.of_largest * std::max(std::abs(*low), std::abs(*high)) +
                          bound.of_range * (*high - *low) + bound.of_block * block_largest;
      for (std::size_t i = row; i < row + bound.row; ++i)
        ASSERT_LE(std::abs(found[i] - values[i]), limit) << bound.encoding << ", element " << i;
    }
  }
}

// Offsets of bytes to set in a block of random bytes, so that it uses the extreme codes, scales and mins, as
// nearly all blocks of the encoder do.
struct Extremes {
  std::string encoding;
  // F16 numbers.
  std::vector<std::size_t> halves{};
  // Set to 0: the lowest codes.
  std::vector<std::size_t> zeros{};
  // Set to 0xFF: two nibbles of 15, or the fifth bits of eight codes.
  std::vector<std::size_t> ones{};
  // Set to 63: the first 6-bit scale and the first 6-bit min.
  std::vector<std::size_t> six_bit_maxima{};
  // The range of signed bytes. The first is set to 127. -128 is replaced, as encoders never write it.
  std::size_t first_signed = 0;
  std::size_t end_signed = 0;
};

const std::vector<Extremes>& extremes() {
  static const std::vector<Extremes> all{
      {.encoding = "Q8_0", .halves = {0}, .first_signed = 2, .end_signed = 34},
      {.encoding = "Q4_0", .halves = {0}, .zeros = {2}},
      {.encoding = "Q4_1", .halves = {0, 2}, .zeros = {4}, .ones = {5}},
      {.encoding = "Q5_0", .halves = {0}, .zeros = {2, 6}},
      {.encoding = "Q5_1", .halves = {0, 2}, .zeros = {4, 8}, .ones = {6, 9}},
      {.encoding = "MXFP4"},
      {.encoding = "Q4_K",
       .halves = {0, 2},
       .zeros = {16, 48, 80, 112},
       .ones = {17, 49, 81, 113},
       .six_bit_maxima = {4, 8}},
      {.encoding = "Q5_K",
       .halves = {0, 2},
       .zeros = {16, 48, 80, 112, 144},
       .ones = {17, 49, 81, 113, 145},
       .six_bit_maxima = {4, 8}},
      {.encoding = "Q6_K",
       .halves = {208},
       .zeros = {0, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176},
       .first_signed = 192,
       .end_signed = 208},
  };
  return all;
}

Blocks blocks_with_extremes(const Extremes& places, std::size_t count) {
  const std::size_t block_bytes = encoding_named(places.encoding).block_bytes;
  Random random(13);
  Blocks blocks(count * block_bytes);
  for (std::size_t block = 0; block < blocks.size(); block += block_bytes) {
    const auto set = [&](const std::vector<std::size_t>& bytes, int value) {
      for (const std::size_t byte : bytes) blocks[block + byte] = static_cast<std::byte>(value);
    };
    for (std::size_t i = 0; i < block_bytes; ++i) set({i}, static_cast<int>(random.below(256)));
    // The upper byte makes the half normal and positive.
    for (const std::size_t half : places.halves) set({half + 1}, static_cast<int>(0x20 + random.below(0x10)));
    // Byte 0 is the exponent.
    if (places.encoding == "MXFP4") set({0}, static_cast<int>(1 + random.below(250)));
    set(places.zeros, 0);
    set(places.ones, 0xff);
    set(places.six_bit_maxima, 63);
    for (std::size_t i = places.first_signed; i < places.end_signed; ++i)
      if (blocks[block + i] == std::byte{0x80} || i == places.first_signed) set({i}, 127);
  }
  return blocks;
}

TEST(EncodeBlocks, values_of_blocks_with_extreme_codes_are_encoded_without_loss) {
  ASSERT_EQ(extremes().size(), encodings().size());
  for (const Extremes& places : extremes()) {
    const Encoding encoding = encoding_named(places.encoding);
    const Floats values = decode(encoding, blocks_with_extremes(places, 64));
    EXPECT_EQ(round_trip(encoding, values), values) << encoding.name;
  }
}

TEST(EncodeBlocks, values_of_encoded_blocks_are_encoded_with_little_loss) {
  const Floats values = values_with_outliers(1 << 13, 5);
  for (const Encoding& encoding : encodings()) {
    const Floats once = round_trip(encoding, values);
    EXPECT_LE(relative_rms(once, round_trip(encoding, once)), relative_rms(values, once) / 4)
        << encoding.name;
  }
  for (const std::string name : {"Q8_0", "MXFP4", "Q4_1", "Q5_1"}) {
    const Floats once = round_trip(encoding_named(name), values);
    EXPECT_EQ(round_trip(encoding_named(name), once), once) << name;
  }
}

TEST(EncodeBlocks, zeros_decode_to_positive_zeros) {
  for (const Encoding& encoding : encodings()) {
    for (const float zero : {0.0F, -0.0F}) {
      for (const float value : round_trip(encoding, Floats(512, zero))) {
        ASSERT_EQ(value, 0.0F) << encoding.name;
        ASSERT_FALSE(std::signbit(value)) << encoding.name;
      }
    }
  }
}

TEST(EncodeBlocks, blocks_of_equal_elements_keep_their_value) {
  for (const Encoding& encoding : encodings()) {
    for (const float value : {1.0F, -1.0F, 1.5F, -0.375F, 1024.0F}) {
      const Floats found = round_trip(encoding, Floats(256, value));
      for (const float element : found) EXPECT_NEAR(element, value, std::abs(value) / 1024) << encoding.name;
    }
  }
}

// All codes of a row of equal elements are equal, a special case for encoders that fit a line to each row.
// Blocks of Q4_K and Q5_K are half zeros here, so their encoders do not negate the elements, and offsets are
// at most 0. The equal codes of a row of a positive value are therefore above 0.
TEST(EncodeBlocks, rows_of_equal_elements_keep_their_value) {
  Random random(20261119);
  for (const Encoding& encoding : encodings()) {
    for (int i = 0; i < 200; ++i) {
      const auto value = static_cast<float>((i % 2 == 0 ? 8 : -8) * random.uniform());
      Floats values(256, 0);
      std::fill_n(values.begin(), 128, value);
      const Floats found = round_trip(encoding, values);
      // Codes of MXFP4 are floating-point numbers with two significant bits.
      const float error = std::abs(value) / (encoding.name == "MXFP4" ? 5 : 64);
      for (std::size_t k = 0; k < 128; ++k)
        ASSERT_NEAR(found[k], value, error) << encoding.name << ", " << value;
      for (std::size_t k = 128; k < 256; ++k) ASSERT_EQ(found[k], 0) << encoding.name << ", " << value;
    }
  }
}

TEST(EncodeBlocks, elements_far_from_zero_keep_their_spread) {
  for (const float center : {1.0F, -1.0F}) {
    Floats values = values_with_outliers(1 << 12, 14);
    for (float& value : values) value = center + value / 32;
    Floats spread = values;
    for (float& value : spread) value -= center;
    for (const std::string name : {"Q4_1", "Q5_1", "Q4_K", "Q5_K"}) {
      Floats found = round_trip(encoding_named(name), values);
      for (float& value : found) value -= center;
      EXPECT_LE(relative_rms(spread, found), 0.2) << name << ", " << center;
    }
  }
}

TEST(EncodeBlocks, tiny_elements_beside_large_ones_become_near_zero) {
  for (const Encoding& encoding : encodings()) {
    Floats values(256, 1e-39F);
    for (std::size_t i = 0; i < 8; ++i) values[i] = static_cast<float>(i) - 3;
    values[255] = 0;
    const Floats found = round_trip(encoding, values);
    const std::size_t next_row = encoding.name == "Q6_K" ? 16 : 32;
    for (std::size_t i = next_row; i < values.size(); ++i)
      ASSERT_NEAR(found[i], 0, 1e-38) << encoding.name << ", element " << i;
  }
}

TEST(EncodeBlocks, blocks_do_not_depend_on_their_neighbours) {
  for (const Encoding& encoding : encodings()) {
    const std::size_t elements = encoding.block_elements;
    const Floats values = values_with_outliers(elements * 11, 6);
    const Blocks together = encode(encoding, values);
    Blocks apart;
    for (std::size_t i = 0; i < values.size(); i += elements) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(i);
      const Blocks block = encode(encoding, Floats(first, first + static_cast<std::ptrdiff_t>(elements)));
      apart.insert(apart.end(), block.begin(), block.end());
    }
    EXPECT_EQ(together, apart) << encoding.name;
  }
}

TEST(EncodeBlocks, writes_the_blocks_and_nothing_else_at_any_address) {
  for (const Encoding& encoding : encodings()) {
    const Floats values = values_with_outliers(std::size_t{encoding.block_elements} * 3 + 1, 7);
    const Floats shifted(values.begin() + 1, values.end());
    const Blocks expected = encode(encoding, shifted);
    Blocks target(expected.size() + 2, std::byte{0xa5});
    encode_blocks(encoding.tag, values.data() + 1, static_cast<std::int64_t>(shifted.size()),
                  target.data() + 1);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), target.begin() + 1)) << encoding.name;
    EXPECT_EQ(target.front(), std::byte{0xa5});
    EXPECT_EQ(target.back(), std::byte{0xa5});
    encode_blocks(encoding.tag, values.data(), 0, target.data());
    EXPECT_EQ(target.front(), std::byte{0xa5});
  }
}

TEST(EncodeBlocks, bits_are_the_same_on_every_machine) {
  // FNV-1a of the blocks.
  const std::vector<std::pair<std::string, std::uint64_t>> expected{
      {"Q8_0", 0x1651d868a43680d4U}, {"Q4_0", 0x87725d1c083ded8cU}, {"Q4_1", 0x0741b6dc0178040eU},
      {"Q5_0", 0xc522b981c60f0155U}, {"Q5_1", 0xa7deb38fc5c2779bU}, {"MXFP4", 0x053b323209715a46U},
      {"Q4_K", 0xb1c4ef0fe8689a50U}, {"Q5_K", 0xcfa3b39cc0a8ad54U}, {"Q6_K", 0xaa6c73bfb47004d3U},
  };
  ASSERT_EQ(expected.size(), encodings().size());
  const Floats values = values_with_outliers(1 << 13, 8);
  for (const auto& [name, hash] : expected) {
    std::uint64_t found = 0xcbf29ce484222325U;
    for (const std::byte byte : encode(encoding_named(name), values))
      found = (found ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3U;
    EXPECT_EQ(found, hash) << name << ": 0x" << std::hex << found;
  }
}

TEST(EncodeBlocks, nan_is_encoded_as_zero) {
  for (const Encoding& encoding : encodings()) {
    Floats values = values_with_outliers(512, 9);
    Floats zeroed = values;
    for (const std::size_t i : {3U, 40U, 41U, 300U, 511U}) {
      values[i] = i % 2 == 0 ? nan : -nan;
      zeroed[i] = 0;
    }
    EXPECT_EQ(encode(encoding, values), encode(encoding, zeroed)) << encoding.name;
    EXPECT_EQ(encode(encoding, Floats(256, nan)), encode(encoding, Floats(256, 0))) << encoding.name;
  }
}

TEST(EncodeBlocks, infinity_is_encoded_as_the_largest_finite_magnitude) {
  for (const Encoding& encoding : encodings()) {
    Floats values = values_with_outliers(512, 10);
    Floats finite = values;
    const std::size_t elements = encoding.block_elements;
    for (const std::size_t i : {5U, 64U, 65U, 400U}) {
      const std::size_t block = i / elements * elements;
      float largest = 0;
      for (std::size_t k = block; k < block + elements; ++k)
        if (!std::isinf(values[k])) largest = std::max(largest, std::abs(values[k]));
      // The largest element itself must not be replaced.
      ASSERT_NE(std::abs(values[i]), largest);
      values[i] = i % 2 == 0 ? infinity : -infinity;
      finite[i] = i % 2 == 0 ? largest : -largest;
    }
    EXPECT_EQ(encode(encoding, values), encode(encoding, finite)) << encoding.name;
  }
}

TEST(EncodeBlocks, infinity_among_zeros_is_encoded_as_the_largest_half) {
  for (const Encoding& encoding : encodings()) {
    Floats values(256, 0);
    values[7] = infinity;
    values[250] = -infinity;
    values[9] = nan;
    const Floats found = round_trip(encoding, values);
    EXPECT_NEAR(found[7], 65504, 300) << encoding.name;
    EXPECT_NEAR(found[250], -65504, 300) << encoding.name;
    EXPECT_NEAR(found[9], 0, 300) << encoding.name;
    EXPECT_EQ(encode(encoding, Floats(256, infinity)), encode(encoding, Floats(256, 65504))) << encoding.name;
  }
}

bool has_finite_values(const Floats& values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

TEST(EncodeBlocks, huge_elements_saturate) {
  for (const Encoding& encoding : encodings()) {
    for (const float huge : {1e7F, 1e9F, 1e20F, 1e38F, largest_float}) {
      Floats values = values_with_outliers(256, 11);
      for (float& value : values) value *= huge / 8;
      values[0] = huge;
      values[255] = -huge;
      const Floats found = round_trip(encoding, values);
      ASSERT_TRUE(has_finite_values(found)) << encoding.name << ", " << huge;
      EXPECT_GE(found[0], 7 * 65504.0F) << encoding.name << ", " << huge;
      EXPECT_LE(found[255], -65504.0F) << encoding.name << ", " << huge;
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_TRUE(std::abs(values[i]) <= huge / 8 || (values[i] < 0) == (found[i] < 0))
            << encoding.name << ", " << huge;
    }
  }
}

TEST(EncodeBlocks, mxfp4_keeps_powers_of_two_with_exponents_from_minus_128_to_127) {
  const Encoding encoding = encoding_named("MXFP4");
  for (int exponent = -128; exponent < 128; ++exponent) {
    const Floats powers(32, std::ldexp(1.0F, exponent));
    ASSERT_EQ(round_trip(encoding, powers), powers) << exponent;
  }
  const Floats largest(32, 0x1.8p127F);
  EXPECT_EQ(round_trip(encoding, largest), largest);
  EXPECT_EQ(round_trip(encoding, Floats(32, largest_float)), Floats(32, 0x1.8p127F));
  EXPECT_EQ(round_trip(encoding, Floats(32, -largest_float)), Floats(32, -0x1.8p127F));
}

TEST(EncodeBlocks, errors_of_small_elements_are_bounded) {
  for (const Encoding& encoding : encodings()) {
    for (int exponent = -16; exponent > -45; --exponent) {
      Floats values = values_with_outliers(256, 12);
      for (float& value : values) value = std::ldexp(value, exponent);
      const Floats found = round_trip(encoding, values);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const float limit = std::ldexp(1.0F, exponent) + 0x1p-24F;
        ASSERT_LE(std::abs(found[i] - values[i]), limit) << encoding.name << ", 2^" << exponent;
      }
    }
  }
}

TEST(EncodeBlocks, blocks_of_elements_up_to_the_stated_limit_become_zeros) {
  for (const Encoding& encoding : encodings()) {
    const float limit = encoding.name == "MXFP4" ? 0x1p-130F : 0x1p-26F;
    for (const float value : {limit, -limit, limit / 2, std::numeric_limits<float>::denorm_min()}) {
      Floats values(256, value);
      EXPECT_EQ(round_trip(encoding, values), Floats(256, 0)) << encoding.name << ", " << value;
      for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -value;
      EXPECT_EQ(round_trip(encoding, values), Floats(256, 0)) << encoding.name << ", ±" << value;
    }
    Floats values = values_with_outliers(256, 15);
    for (float& value : values) value = value / 8 * limit;
    EXPECT_EQ(round_trip(encoding, values), Floats(256, 0)) << encoding.name;
  }
}

}  // namespace
}  // namespace ht::encode_blocks_test
