// Reference decoders: one simple function per encoding, with which tests compare the kernels.
//
// Each comment is the byte map of a block; all numbers are little-endian. `d`, `m` and `dmin` are F16.
// `x[n] of k bits` is n bytes of k-bit numbers. The order of multiplications and additions is part of the
// definition, because each operation rounds to F32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <htensor/dtype/encoding.hpp>
#include <htensor/dtype/scalar.hpp>
#include <vector>

#include "values/blocks/iq_tables.hpp"

namespace ht::inline v1::reference {

using Block = const std::uint8_t*;

template <class T>
T number_at(Block bytes) {
  T value{};
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

inline float half_at(Block bytes) {
  return static_cast<float>(F16::Element::from_bits(number_at<std::uint16_t>(bytes)));
}

inline int low_nibble(std::uint8_t byte) { return byte & 15; }
inline int high_nibble(std::uint8_t byte) { return byte >> 4; }

/// Byte `j` of a grid entry.
template <class Entry>
float grid_element(Entry entry, int j) {
  return static_cast<float>(static_cast<std::int8_t>(static_cast<std::uint8_t>(entry >> (8 * j))));
}

/// -1 if bit `j` is set, else 1.
inline float sign(unsigned signs, int j) { return ((signs >> j) & 1) != 0 ? -1.F : 1.F; }

/// d, q[16] of 4 bits; 8 represents 0. The low nibbles of the bytes come first.
inline void decode(Q4_0, Block b, float* y) {
  const float d = half_at(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(low_nibble(b[2 + j]) - 8) * d;
    y[j + 16] = static_cast<float>(high_nibble(b[2 + j]) - 8) * d;
  }
}

/// d, m, q[16].
inline void decode(Q4_1, Block b, float* y) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(low_nibble(b[4 + j])) * d + m;
    y[j + 16] = static_cast<float>(high_nibble(b[4 + j])) * d + m;
  }
}

/// The 5-bit element `j` of 32: four bits in a nibble, and the highest bit in a 32-bit word.
inline int five_bits(std::uint32_t high, Block q, int j) {
  const int low = j < 16 ? low_nibble(q[j]) : high_nibble(q[j - 16]);
  return low | static_cast<int>(((high >> j) & 1) << 4);
}

/// d, the fifth bits in a 32-bit word, q[16]; 16 represents 0.
inline void decode(Q5_0, Block b, float* y) {
  const float d = half_at(b);
  const auto high = number_at<std::uint32_t>(b + 2);
  for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(five_bits(high, b + 6, j) - 16) * d;
}

/// d, m, the fifth bits in a 32-bit word, q[16].
inline void decode(Q5_1, Block b, float* y) {
  const float d = half_at(b);
  const float m = half_at(b + 2);
  const auto high = number_at<std::uint32_t>(b + 4);
  for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(five_bits(high, b + 8, j)) * d + m;
}

inline void decode_int8(float d, Block q, int count, float* y) {
  for (int j = 0; j < count; ++j) y[j] = static_cast<float>(static_cast<std::int8_t>(q[j])) * d;
}

/// d, q[32] of int8.
inline void decode(Q8_0, Block b, float* y) { decode_int8(half_at(b), b + 2, 32, y); }

/// d, a sum for dot products, q[32] of int8.
inline void decode(Q8_1, Block b, float* y) { decode_int8(half_at(b), b + 4, 32, y); }

/// d as F32, q[256] of int8, sums for dot products.
inline void decode(Q8_K, Block b, float* y) { decode_int8(number_at<float>(b), b + 4, 256, y); }

/// scales[16] for 16 elements each: 4 bits of scale and 4 bits of offset; q[64] of 2 bits, d, dmin. Byte l of
/// each 32 bytes of q has the elements l, l + 32, l + 64 and l + 96.
inline void decode(Q2_K, Block b, float* y) {
  const float d = half_at(b + 80);
  const float dmin = half_at(b + 82);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(low_nibble(b[i / 16]));
    const float offset = dmin * static_cast<float>(high_nibble(b[i / 16]));
    const int q = (b[16 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    y[i] = scale * static_cast<float>(q) - offset;
  }
}

/// Scale `i` of 16: its low four bits are a nibble of the first 8 bytes, its high two bits are in the last 4.
inline int q3_scale(Block scales, int i) {
  const int low = i < 8 ? low_nibble(scales[i]) : high_nibble(scales[i - 8]);
  const int high = (scales[8 + i % 4] >> (2 * (i / 4))) & 3;
  return (low | (high << 4)) - 32;
}

/// The third bits in h[32], where a clear bit subtracts 4; q[64] of 2 bits as in Q2_K; scales[12]; d.
inline void decode(Q3_K, Block b, float* y) {
  const float d = half_at(b + 108);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(q3_scale(b + 96, i / 16));
    const int low = (b[32 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    const bool high = ((b[i % 32] >> (i / 32)) & 1) != 0;
    y[i] = scale * static_cast<float>(low - (high ? 0 : 4));
  }
}

struct ScaleAndOffset {
  int scale;
  int offset;
};

/// Scale and offset `i` of 8, 6 bits each, in 12 bytes. The first four of both are in the low bits of the
/// first 8 bytes. The last four have four bits in the last 4 bytes and two in the high bits of the first 8.
inline ScaleAndOffset k_scale(Block s, int i) {
  if (i < 4) return {s[i] & 63, s[i + 4] & 63};
  return {low_nibble(s[i + 4]) | ((s[i - 4] >> 6) << 4), high_nibble(s[i + 4]) | ((s[i] >> 6) << 4)};
}

/// d, dmin, scales[12], q[128]: 32 bytes have 32 elements in their low nibbles and the next 32 in the high
/// ones.
inline void decode(Q4_K, Block b, float* y) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  for (int i = 0; i < 256; ++i) {
    const auto [scale, offset] = k_scale(b + 4, i / 32);
    const std::uint8_t byte = b[16 + 32 * (i / 64) + i % 32];
    const int q = i % 64 < 32 ? low_nibble(byte) : high_nibble(byte);
    const float d1 = d * static_cast<float>(scale);
    const float m1 = dmin * static_cast<float>(offset);
    y[i] = d1 * static_cast<float>(q) - m1;
  }
}

/// d, dmin, scales[12], the fifth bits in h[32], q[128] as in Q4_K. Bit i / 32 of h[i % 32] is for element i.
inline void decode(Q5_K, Block b, float* y) {
  const float d = half_at(b);
  const float dmin = half_at(b + 2);
  for (int i = 0; i < 256; ++i) {
    const auto [scale, offset] = k_scale(b + 4, i / 32);
    const std::uint8_t byte = b[48 + 32 * (i / 64) + i % 32];
    const int low = i % 64 < 32 ? low_nibble(byte) : high_nibble(byte);
    const int high = (b[16 + i % 32] >> (i / 32)) & 1;
    const float d1 = d * static_cast<float>(scale);
    const float m1 = dmin * static_cast<float>(offset);
    y[i] = d1 * static_cast<float>(low + 16 * high) - m1;
  }
}

/// Low four bits in q[128], high two bits in h[64], scales[16] of int8 for 16 elements each, d; 32 represents
/// 0. The first 64 of each 128 elements are in the low nibbles of 64 bytes. Byte l of h has the bits of
/// elements l, l + 32, l + 64 and l + 96.
inline void decode(Q6_K, Block b, float* y) {
  const float d = half_at(b + 208);
  for (int i = 0; i < 256; ++i) {
    const std::uint8_t byte = b[64 * (i / 128) + i % 64];
    const int low = i % 128 < 64 ? low_nibble(byte) : high_nibble(byte);
    const int high = (b[128 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(b[192 + i / 16]));
    y[i] = scale * static_cast<float>((low | (high << 4)) - 32);
  }
}

/// d, then for each 32 elements a word of four indexes, and a word of four 7-bit sign codes and a scale.
inline void decode(IQ2_XXS, Block b, float* y) {
  const float d = half_at(b);
  for (int i = 0; i < 256; ++i) {
    const Block indexes = &b[2 + 8 * (i / 32)];
    const auto word = number_at<std::uint32_t>(indexes + 4);
    const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.25F;
    const int group = i % 32 / 8;
    const unsigned signs = iq::iq_signs[(word >> (7 * group)) & 127];
    y[i] = scale * grid_element(iq::iq2xxs_grid[indexes[group]], i % 8) * sign(signs, i % 8);
  }
}

/// The scale of 16 elements from a nibble, as in IQ2_XS and IQ2_S.
inline float iq2_scale(float d, Block scales, int i) {
  const std::uint8_t byte = scales[i / 32];
  const int nibble = i % 32 < 16 ? low_nibble(byte) : high_nibble(byte);
  return d * (0.5F + static_cast<float>(nibble)) * 0.25F;
}

/// d, 32 16-bit words of a 9-bit index and a 7-bit sign code, scales[8] of 4 bits: each of the 16 scales is
/// for 16 elements.
inline void decode(IQ2_XS, Block b, float* y) {
  const float d = half_at(b);
  for (int i = 0; i < 256; ++i) {
    const auto word = number_at<std::uint16_t>(&b[2 + 2 * (i / 8)]);
    const float element = grid_element(iq::iq2xs_grid[word & 511], i % 8);
    y[i] = iq2_scale(d, b + 66, i) * element * sign(iq::iq_signs[word >> 9], i % 8);
  }
}

/// d, the low bytes of 32 indexes, 32 bytes of signs, the high two bits of the indexes in h[8], scales[8] as
/// in IQ2_XS.
inline void decode(IQ2_S, Block b, float* y) {
  const float d = half_at(b);
  for (int i = 0; i < 256; ++i) {
    const int group = i / 8;
    const unsigned high = (b[66 + group / 4] >> (2 * (group % 4))) & 3U;
    const float element = grid_element(iq::iq2s_grid[b[2 + group] | (high << 8)], i % 8);
    y[i] = iq2_scale(d, b + 74, i) * element * sign(b[34 + group], i % 8);
  }
}

/// d, 64 indexes, 8 words of four 7-bit sign codes and a scale for 32 elements.
inline void decode(IQ3_XXS, Block b, float* y) {
  const float d = half_at(b);
  for (int i = 0; i < 256; ++i) {
    const auto word = number_at<std::uint32_t>(&b[66 + 4 * (i / 32)]);
    const float scale = d * (0.5F + static_cast<float>(word >> 28)) * 0.5F;
    const unsigned signs = iq::iq_signs[(word >> (7 * (i % 32 / 8))) & 127];
    y[i] = scale * grid_element(iq::iq3xxs_grid[b[2 + i / 4]], i % 4) * sign(signs, i % 8);
  }
}

/// d, the low bytes of 64 indexes, their ninth bits in h[8], 32 bytes of signs, scales[4] of 4 bits: each of
/// the 8 scales is for 32 elements.
inline void decode(IQ3_S, Block b, float* y) {
  const float d = half_at(b);
  for (int i = 0; i < 256; ++i) {
    const std::uint8_t byte = b[106 + i / 64];
    const int nibble = i % 64 < 32 ? low_nibble(byte) : high_nibble(byte);
    const float scale = d * static_cast<float>(1 + 2 * nibble);
    const int group = i / 4;
    const unsigned high = (b[66 + group / 8] >> (group % 8)) & 1U;
    const float element = grid_element(iq::iq3s_grid[b[2 + group] | (high << 8)], i % 4);
    y[i] = scale * element * sign(b[74 + i / 8], i % 8);
  }
}

/// d, the low bytes of 32 indexes, 8 16-bit words for 32 elements each: the high 3 bits of four indexes, 3
/// bits of scale, and the sign of the shift by 1/8.
inline void decode(IQ1_S, Block b, float* y) {
  const float d = half_at(b);
  for (int i = 0; i < 256; ++i) {
    const auto word = number_at<std::uint16_t>(&b[34 + 2 * (i / 32)]);
    const float scale = d * static_cast<float>(2 * ((word >> 12) & 7) + 1);
    const float shift = (word & 0x8000) != 0 ? -0.125F : 0.125F;
    const unsigned high = (word >> (3 * (i % 32 / 8))) & 7U;
    y[i] = scale * (grid_element(iq::iq1s_grid[b[2 + i / 8] | (high << 8)], i % 8) + shift);
  }
}

/// The low bytes of 32 indexes; h[16], where a nibble has the high 3 bits of an index and the sign of the
/// shift; 4 16-bit words. Each word has four 3-bit scales, for 16 elements each, and in its top bits 4 bits
/// of d, the lowest in the first word.
inline void decode(IQ1_M, Block b, float* y) {
  std::uint16_t words[4];
  std::memcpy(words, b + 48, sizeof words);
  std::uint16_t d_bits = 0;
  for (int k = 0; k < 4; ++k) d_bits = static_cast<std::uint16_t>(d_bits | ((words[k] >> 12) << (4 * k)));
  const auto d = static_cast<float>(F16::Element::from_bits(d_bits));
  for (int i = 0; i < 256; ++i) {
    const float scale = d * static_cast<float>(2 * ((words[i / 64] >> (3 * (i % 64 / 16))) & 7) + 1);
    const int group = i / 8;
    const std::uint8_t byte = b[32 + group / 2];
    const auto nibble = static_cast<unsigned>(group % 2 == 0 ? low_nibble(byte) : high_nibble(byte));
    const float shift = (nibble & 8) != 0 ? -0.125F : 0.125F;
    y[i] = scale * (grid_element(iq::iq1s_grid[b[group] | ((nibble & 7) << 8)], i % 8) + shift);
  }
}

/// d, q[16] of 4-bit codes.
inline void decode(IQ4_NL, Block b, float* y) {
  const float d = half_at(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * static_cast<float>(iq::iq4nl_values[b[2 + j] & 15]);
    y[j + 16] = d * static_cast<float>(iq::iq4nl_values[b[2 + j] >> 4]);
  }
}

/// d, the high two bits of 8 scales in a 16-bit word, their low four bits in 4 bytes, q[128]: 16 bytes for
/// each 32 elements, as in IQ4_NL.
inline void decode(IQ4_XS, Block b, float* y) {
  const float d = half_at(b);
  const auto high = number_at<std::uint16_t>(b + 2);
  for (int i = 0; i < 256; ++i) {
    const int k = i / 32;
    const std::uint8_t byte = b[4 + k / 2];
    const int low = k % 2 == 0 ? low_nibble(byte) : high_nibble(byte);
    const float scale = d * static_cast<float>((low | (((high >> (2 * k)) & 3) << 4)) - 32);
    const std::uint8_t codes = b[8 + 16 * k + i % 16];
    y[i] = scale * static_cast<float>(iq::iq4nl_values[i % 32 < 16 ? codes & 15 : codes >> 4]);
  }
}

/// Digit `n` of a byte that is a base-3 fraction. The first digit is the most significant.
inline int ternary_digit(std::uint8_t byte, int n) {
  unsigned fraction = byte;
  for (; n > 0; --n) fraction = fraction * 3 % 256;
  return static_cast<int>(fraction * 3 / 256);
}

/// q[48] of five digits per byte, h[4] of four, d. Elements 0 to 159 are the first digits of bytes 0 to 31 of
/// q, then their second digits, up to the fifth. Elements 160 to 239 follow in the same way from bytes 32 to
/// 47 of q, elements 240 to 255 from h.
inline void decode(TQ1_0, Block b, float* y) {
  const float d = half_at(b + 52);
  for (int i = 0; i < 256; ++i) {
    int digit = 0;
    if (i < 160) {
      digit = ternary_digit(b[i % 32], i / 32);
    } else if (i < 240) {
      digit = ternary_digit(b[32 + (i - 160) % 16], (i - 160) / 16);
    } else {
      digit = ternary_digit(b[48 + (i - 240) % 4], (i - 240) / 4);
    }
    y[i] = static_cast<float>(digit - 1) * d;
  }
}

/// q[64] of 2 bits as in Q2_K, d; 1 represents 0.
inline void decode(TQ2_0, Block b, float* y) {
  const float d = half_at(b + 64);
  for (int i = 0; i < 256; ++i) {
    const int q = (b[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32))) & 3;
    y[i] = static_cast<float>(q - 1) * d;
  }
}

/// The exponent of a power of two, q[16] of 4-bit floats. The code book has twice their values, so the scale
/// is 2^(e - 128). NaN does not exist: 255 is 2^127.
inline void decode(MXFP4, Block b, float* y) {
  const std::uint32_t e = b[0];
  const auto d = std::bit_cast<float>(e < 2 ? std::uint32_t{1} << (21 + e) : (e - 1) << 23);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(iq::fp4_values[b[1 + j] & 15]) * d;
    y[j + 16] = static_cast<float>(iq::fp4_values[b[1 + j] >> 4]) * d;
  }
}

/// A scale with 4 exponent and 3 mantissa bits, divided by 2 because the code book has doubled values. 0x7F,
/// the NaN of F8_E4M3, is 0. Otherwise the top bit is ignored.
inline float nvfp4_scale(std::uint8_t code) {
  if (code == 0x7F) return 0.F;
  const int exponent = (code >> 3) & 15;
  const auto mantissa = static_cast<float>(code & 7);
  float scale = exponent == 0 ? mantissa / 8.F / 64.F : 1.F + mantissa / 8.F;
  for (int i = 7; i < exponent; ++i) scale *= 2.F;
  for (int i = exponent; i > 0 && i < 7; ++i) scale /= 2.F;
  return scale * 0.5F;
}

/// scales[4] for 16 elements each, q[32]: 8 bytes for each 16 elements, low nibbles first.
inline void decode(NVFP4, Block b, float* y) {
  for (int i = 0; i < 64; ++i) {
    const std::uint8_t codes = b[4 + 8 * (i / 16) + i % 8];
    y[i] = static_cast<float>(iq::fp4_values[i % 16 < 8 ? codes & 15 : codes >> 4]) * nvfp4_scale(b[i / 16]);
  }
}

/// d, a bit per element: set for d, clear for -d.
inline void decode(Q1_0, Block b, float* y) {
  const float d = half_at(b);
  for (int i = 0; i < 128; ++i) y[i] = ((b[2 + i / 8] >> (i % 8)) & 1) != 0 ? d : -d;
}

/// d, q[16] of 2 bits: each byte has four adjacent elements. 1 represents 0.
inline void decode(Q2_0, Block b, float* y) {
  const float d = half_at(b);
  for (int i = 0; i < 64; ++i) y[i] = static_cast<float>(((b[2 + i / 4] >> (2 * (i % 4))) & 3) - 1) * d;
}

/// The elements of all blocks in `bytes` bytes.
inline std::vector<float> decode(const Encoding& encoding, Block blocks, std::size_t bytes) {
  const std::size_t count = bytes / encoding.block_bytes;
  std::vector<float> values(count * encoding.block_elements);
  visit_encoding(encoding.tag, [&](auto e) {
    for (std::size_t i = 0; i < count; ++i)
      decode(e, blocks + i * encoding.block_bytes, values.data() + i * encoding.block_elements);
  });
  return values;
}

}  // namespace ht::inline v1::reference
