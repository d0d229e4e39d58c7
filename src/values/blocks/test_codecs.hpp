// Reference decoders of block encodings, and round trips through the encoders.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/scalar.hpp>
#include <string>
#include <vector>

#include "values/blocks/encode_blocks.hpp"

namespace ht::encode_blocks_test {

// Simple decoders for the tests. The encoders share no code with them.

using Block = const std::uint8_t*;

inline float half_at(Block bytes) {
  return static_cast<float>(F16::Element::from_bits(static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8)));
}

// Element i of 32: the first 16 lie in the low nibbles.
inline int nibble(Block nibbles, int i) { return nibbles[i % 16] >> (i / 16 * 4) & 15; }
inline int bit(Block bits, int i) { return bits[i / 8] >> (i % 8) & 1; }

inline float decode_q4_0(Block block, int i) {
  return static_cast<float>(nibble(block + 2, i) - 8) * half_at(block);
}

inline float decode_q4_1(Block block, int i) {
  return static_cast<float>(nibble(block + 4, i)) * half_at(block) + half_at(block + 2);
}

inline float decode_q5_0(Block block, int i) {
  return static_cast<float>((nibble(block + 6, i) | bit(block + 2, i) << 4) - 16) * half_at(block);
}

inline float decode_q5_1(Block block, int i) {
  const int code = nibble(block + 8, i) | bit(block + 4, i) << 4;
  return static_cast<float>(code) * half_at(block) + half_at(block + 2);
}

inline float decode_q8_0(Block block, int i) {
  return static_cast<float>(static_cast<std::int8_t>(block[2 + i])) * half_at(block);
}

inline float decode_mxfp4(Block block, int i) {
  constexpr std::array doubled{0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 6.0F, 8.0F, 12.0F};
  const int code = nibble(block + 1, i);
  const float value = std::ldexp(doubled[static_cast<std::size_t>(code & 7)], block[0] - 128);
  return code < 8 ? value : -value;
}

inline float k_line(Block block, int i, int code) {
  const Block packed = block + 4;
  const int row = i / 32;
  const int scale = row < 4 ? packed[row] & 63 : (packed[row + 4] & 15) | packed[row - 4] >> 6 << 4;
  const int min = row < 4 ? packed[row + 4] & 63 : packed[row + 4] >> 4 | packed[row] >> 6 << 4;
  return half_at(block) * static_cast<float>(scale) * static_cast<float>(code) -
         half_at(block + 2) * static_cast<float>(min);
}

// Element i of 256: 64 elements share 32 bytes.
inline int k_nibble(Block nibbles, int i) { return nibbles[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15; }

inline float decode_q4_k(Block block, int i) { return k_line(block, i, k_nibble(block + 16, i)); }

inline float decode_q5_k(Block block, int i) {
  return k_line(block, i, k_nibble(block + 48, i) | (block[16 + i % 32] >> (i / 32) & 1) << 4);
}

inline float decode_q6_k(Block block, int i) {
  const int half = i / 128;
  const int low = block[half * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
  const int high = block[128 + half * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
  const auto scale = static_cast<std::int8_t>(block[192 + i / 16]);
  return half_at(block + 208) * static_cast<float>(scale) * static_cast<float>((low | high << 4) - 32);
}

struct Codec {
  std::string name;
  float (*decode)(Block block, int element);

  [[nodiscard]] Encoding encoding() const { return find_encoding(name).value(); }
};

inline const std::vector<Codec>& codecs() {
  static const std::vector<Codec> all{
      {"Q8_0", decode_q8_0}, {"Q4_0", decode_q4_0}, {"Q4_1", decode_q4_1},
      {"Q5_0", decode_q5_0}, {"Q5_1", decode_q5_1}, {"MXFP4", decode_mxfp4},
      {"Q4_K", decode_q4_k}, {"Q5_K", decode_q5_k}, {"Q6_K", decode_q6_k},
  };
  return all;
}

using Floats = std::vector<float>;
using Blocks = std::vector<std::byte>;

inline Floats decode(const Codec& codec, const Blocks& blocks) {
  const Encoding encoding = codec.encoding();
  Floats values;
  for (std::size_t at = 0; at < blocks.size(); at += encoding.block_bytes) {
    const auto* const block = reinterpret_cast<Block>(blocks.data() + at);
    for (std::uint32_t i = 0; i < encoding.block_elements; ++i)
      values.push_back(codec.decode(block, static_cast<int>(i)));
  }
  return values;
}

inline Blocks encode(const Codec& codec, const Floats& values) {
  const Encoding encoding = codec.encoding();
  Blocks blocks(values.size() / encoding.block_elements * encoding.block_bytes);
  encode_blocks(encoding.tag, values.data(), static_cast<std::int64_t>(values.size()), blocks.data());
  return blocks;
}

inline Floats round_trip(const Codec& codec, const Floats& values) {
  return decode(codec, encode(codec, values));
}

}  // namespace ht::encode_blocks_test
