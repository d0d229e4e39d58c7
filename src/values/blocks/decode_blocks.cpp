// Kernels, compiled once per Highway target. The first call selects the target of the processor.
//
// Most encodings are decoded in two steps, a register of elements at a time. First the elements of a block
// become int8 in a buffer on the stack. Then runs of 16 or 32 elements are multiplied by their scale.
// Elements of Q5_0, Q5_1, Q1_0, Q2_0, IQ1, IQ2 and IQ3 are assembled 8 at a time in a 64-bit word instead of
// a register. decode_reference.hpp has the byte maps.
#include "values/blocks/decode_blocks.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <htensor/dtype/encoding.hpp>

#include "values/blocks/iq_tables.hpp"
#include "values/targets.hpp"

#ifndef HT_DECODE_BLOCKS_ONCE
#define HT_DECODE_BLOCKS_ONCE

namespace ht::inline v1::decode_kernels {
namespace {

/// For each byte value, a word whose byte i is 1 if bit i of the value is set.
constexpr auto spread_bytes = [] {
  std::array<std::uint64_t, 256> spread{};
  for (std::size_t byte = 0; byte < spread.size(); ++byte) {
    for (unsigned bit = 0; bit < 8; ++bit) spread[byte] |= ((byte >> bit) & std::uint64_t{1}) << (8 * bit);
  }
  return spread;
}();

}  // namespace
}  // namespace ht::inline v1::decode_kernels

#endif

// Highway compiles this file again for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "values/blocks/decode_blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "values/blocks/k_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::decode_kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using namespace k_blocks::HWY_NAMESPACE;

using Block = const std::uint8_t*;

template <class T>
HWY_INLINE T number_at(Block bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// Converts an F16 with integer operations and one exact subtraction, so that the result does not depend on
// the processor's subnormal mode.
HWY_INLINE float half(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = bits & 0x7C00U;
  const std::uint32_t fraction = bits & 0x03FFU;
  std::uint32_t magnitude = ((exponent | fraction) << 13) + (112U << 23);
  if (exponent == 0) {
    // The unit of the fraction is 2^-24, the same as the last bit of a float in [0.5, 1).
    magnitude = std::bit_cast<std::uint32_t>(std::bit_cast<float>(0x3F000000U | fraction) - 0.5F);
  } else if (exponent == 0x7C00U) {
    magnitude = 0x7F800000U | (fraction << 13) | (fraction != 0 ? 0x00400000U : 0U);
  }
  return std::bit_cast<float>(sign | magnitude);
}

HWY_INLINE float half_at(Block bytes) { return half(number_at<std::uint16_t>(bytes)); }

/// The elements of a block before they are scaled.
template <std::size_t Count>
struct Elements {
  alignas(64) std::int8_t at[Count];
};

/// Makes the compiler load the object from memory instead of forwarding its stores in registers. A load can
/// widen bytes, or broadcast a number to all lanes, at no extra cost; from a register, this takes up to four
/// shuffles.
template <class T>
HWY_INLINE void reload(T& object) {
#if defined(__GNUC__)
  asm volatile("" : "+m"(object));
#endif
}

template <std::size_t Count>
using Floats = hn::CappedTag<float, (Count < 16 ? Count : 16)>;

template <class Tag>
HWY_INLINE hn::Vec<Tag> floats_at(Tag tag, const std::int8_t* elements) {
  const hn::Rebind<std::int32_t, Tag> integers;
  const hn::Rebind<std::int8_t, Tag> bytes;
  return hn::ConvertTo(tag, hn::PromoteTo(integers, hn::LoadU(bytes, elements)));
}

/// into = elements · d
template <std::size_t Count>
HWY_INLINE void scale(const std::int8_t* elements, float d, float* into) {
  const Floats<Count> tag;
  const auto factor = hn::Set(tag, d);
  for (std::size_t i = 0; i < Count; i += hn::Lanes(tag)) {
    hn::StoreU(hn::Mul(floats_at(tag, elements + i), factor), tag, into + i);
  }
}

/// into = elements · d + m
template <std::size_t Count>
HWY_INLINE void scale_and_add(const std::int8_t* elements, float d, float m, float* into) {
  const Floats<Count> tag;
  const auto factor = hn::Set(tag, d);
  const auto offset = hn::Set(tag, m);
  for (std::size_t i = 0; i < Count; i += hn::Lanes(tag)) {
    hn::StoreU(hn::Add(hn::Mul(floats_at(tag, elements + i), factor), offset), tag, into + i);
  }
}

/// into = elements · d - m
template <std::size_t Count>
HWY_INLINE void scale_and_subtract(const std::int8_t* elements, float d, float m, float* into) {
  const Floats<Count> tag;
  const auto factor = hn::Set(tag, d);
  const auto offset = hn::Set(tag, m);
  for (std::size_t i = 0; i < Count; i += hn::Lanes(tag)) {
    hn::StoreU(hn::Sub(hn::Mul(floats_at(tag, elements + i), factor), offset), tag, into + i);
  }
}

/// Scales 256 elements, with one scale per 16 elements.
HWY_INLINE void scale_sixteens(const std::int8_t* elements, const float* scales, float* into) {
  for (std::size_t i = 0; i < 16; ++i) scale<16>(elements + 16 * i, scales[i], into + 16 * i);
}

/// Splits `Count` bytes: low nibbles minus `ZeroPoint` to `low`, high nibbles minus `ZeroPoint` to `high`.
template <std::size_t Count, int ZeroPoint = 0>
HWY_INLINE void split_nibbles(Block bytes, std::int8_t* low, std::int8_t* high) {
  const BytesTag<Count> tag;
  const auto zero_point = hn::Set(tag, std::uint8_t{ZeroPoint});
  const auto mask = hn::Set(tag, std::uint8_t{15});
  for (std::size_t i = 0; i < Count; i += hn::Lanes(tag)) {
    const auto both = hn::LoadU(tag, bytes + i);
    store_elements(tag, hn::Sub(hn::And(both, mask), zero_point), low + i);
    store_elements(tag, hn::Sub(hn::ShiftRight<4>(both), zero_point), high + i);
  }
}

/// Like `split_nibbles`, with each nibble looked up in a table of 16.
template <std::size_t Count>
HWY_INLINE void look_up_nibbles(const std::int8_t* table, Block bytes, std::int8_t* low, std::int8_t* high) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < Count; ++i) {
    low[i] = table[bytes[i] & 15];
    high[i] = table[bytes[i] >> 4];
  }
#else
  const BytesTag<Count> tag;
  const hn::RebindToSigned<BytesTag<Count>> integers;
  const auto values = hn::LoadDup128(integers, table);
  const auto mask = hn::Set(tag, std::uint8_t{15});
  for (std::size_t i = 0; i < Count; i += hn::Lanes(tag)) {
    const auto both = hn::LoadU(tag, bytes + i);
    const auto low_codes = hn::BitCast(integers, hn::And(both, mask));
    const auto high_codes = hn::BitCast(integers, hn::ShiftRight<4>(both));
    hn::StoreU(hn::TableLookupBytes(values, low_codes), integers, low + i);
    hn::StoreU(hn::TableLookupBytes(values, high_codes), integers, high + i);
  }
#endif
}

/// The four 2-bit fields of 32 bytes, minus `ZeroPoint`: the lowest fields of all bytes first.
template <int ZeroPoint = 0>
HWY_INLINE void split_two_bit_fields(Block bytes, std::int8_t* elements) {
  const BytesTag<32> tag;
  const auto zero_point = hn::Set(tag, std::uint8_t{ZeroPoint});
  const auto mask = hn::Set(tag, std::uint8_t{3});
  for (std::size_t i = 0; i < 32; i += hn::Lanes(tag)) {
    auto fields = hn::LoadU(tag, bytes + i);
    for (std::size_t field = 0; field < 4; ++field) {
      store_elements(tag, hn::Sub(hn::And(fields, mask), zero_point), elements + 32 * field + i);
      fields = hn::ShiftRight<2>(fields);
    }
  }
}

// Functions on eight elements in a 64-bit word, the first element in the lowest byte.

constexpr std::uint64_t each_byte(std::uint64_t value) { return value * 0x0101010101010101U; }

/// Byte i is 1 if bit i of the 8 `bits` is set.
HWY_INLINE std::uint64_t spread_bits(std::size_t bits) { return spread_bytes[bits]; }

/// Spreads the eight 2-bit fields of 16 bits to one byte each.
HWY_INLINE std::uint64_t spread_two_bit_fields(std::uint64_t fields) {
  fields = (fields | (fields << 24)) & 0x000000FF000000FFU;
  fields = (fields | (fields << 12)) & 0x000F000F000F000FU;
  return (fields | (fields << 6)) & each_byte(3);
}

/// Subtracts `n` from bytes below 128; the results are int8.
HWY_INLINE std::uint64_t subtract_from_each(std::uint64_t bytes, std::uint64_t n) {
  return ((bytes | each_byte(0x80)) - each_byte(n)) ^ each_byte(0x80);
}

/// Negates each magnitude whose bit of `signs` is set; the results are int8. Requires nonzero magnitudes: a
/// negated 0 would carry into the next byte.
HWY_INLINE std::uint64_t with_signs(std::uint64_t magnitudes, std::size_t signs) {
  const std::uint64_t negative = spread_bits(signs);
  return (magnitudes ^ (negative * 255)) + negative;
}

HWY_INLINE void store_eight(std::uint64_t word, std::int8_t* elements) {
  std::memcpy(elements, &word, sizeof word);
}

HWY_INLINE void decode(Q4_0, Block b, float* into) {
  Elements<32> elements;
  split_nibbles<16, 8>(b + 2, elements.at, elements.at + 16);
  scale<32>(elements.at, half_at(b), into);
}

HWY_INLINE void decode(Q4_1, Block b, float* into) {
  Elements<32> elements;
  split_nibbles<16>(b + 4, elements.at, elements.at + 16);
  scale_and_add<32>(elements.at, half_at(b), half_at(b + 2), into);
}

/// 32 elements of 5 bits, minus `zero_point`: the low four bits from 16 bytes of nibbles, the fifth from
/// `high`.
HWY_INLINE void five_bits(std::uint32_t high, Block nibbles, std::uint64_t zero_point,
                          std::int8_t* elements) {
  for (std::size_t i = 0; i < 2; ++i) {
    const auto both = number_at<std::uint64_t>(nibbles + 8 * i);
    const std::uint64_t low_fifth = spread_bits((high >> (8 * i)) & 255) << 4;
    const std::uint64_t high_fifth = spread_bits((high >> (8 * i + 16)) & 255) << 4;
    store_eight(subtract_from_each((both & each_byte(15)) | low_fifth, zero_point), elements + 8 * i);
    store_eight(subtract_from_each(((both >> 4) & each_byte(15)) | high_fifth, zero_point),
                elements + 8 * i + 16);
  }
}

HWY_INLINE void decode(Q5_0, Block b, float* into) {
  Elements<32> elements;
  five_bits(number_at<std::uint32_t>(b + 2), b + 6, 16, elements.at);
  scale<32>(elements.at, half_at(b), into);
}

HWY_INLINE void decode(Q5_1, Block b, float* into) {
  Elements<32> elements;
  five_bits(number_at<std::uint32_t>(b + 4), b + 8, 0, elements.at);
  scale_and_add<32>(elements.at, half_at(b), half_at(b + 2), into);
}

HWY_INLINE const std::int8_t* as_int8(Block bytes) { return reinterpret_cast<const std::int8_t*>(bytes); }

HWY_INLINE void decode(Q8_0, Block b, float* into) { scale<32>(as_int8(b + 2), half_at(b), into); }

HWY_INLINE void decode(Q8_1, Block b, float* into) { scale<32>(as_int8(b + 4), half_at(b), into); }

HWY_INLINE void decode(Q8_K, Block b, float* into) { scale<256>(as_int8(b + 4), number_at<float>(b), into); }

HWY_INLINE void decode(Q2_K, Block b, float* into) {
  Elements<256> elements;
  split_two_bit_fields(b + 16, elements.at);
  split_two_bit_fields(b + 48, elements.at + 128);
  Elements<32> both;
  split_nibbles<16>(b, both.at, both.at + 16);
  float scales[16];
  float offsets[16];
  scale<16>(both.at, half_at(b + 80), scales);
  scale<16>(both.at + 16, half_at(b + 82), offsets);
  for (std::size_t i = 0; i < 16; ++i) {
    scale_and_subtract<16>(elements.at + 16 * i, scales[i], offsets[i], into + 16 * i);
  }
}

HWY_INLINE void q3_elements(Block high, Block low, std::int8_t* elements) {
  const BytesTag<32> tag;
  const auto zero_point = hn::Set(tag, std::uint8_t{4});
  const auto low_mask = hn::Set(tag, std::uint8_t{3});
  const auto high_mask = hn::Set(tag, std::uint8_t{1});
  for (std::size_t i = 0; i < 32; i += hn::Lanes(tag)) {
    auto bits = hn::LoadU(tag, high + i);
    for (std::size_t part = 0; part < 2; ++part) {
      auto fields = hn::LoadU(tag, low + 32 * part + i);
      for (std::size_t field = 0; field < 4; ++field) {
        const auto third = hn::ShiftLeft<2>(hn::And(bits, high_mask));
        const auto element = hn::Sub(hn::Or(hn::And(fields, low_mask), third), zero_point);
        store_elements(tag, element, elements + 128 * part + 32 * field + i);
        fields = hn::ShiftRight<2>(fields);
        bits = hn::ShiftRight<1>(bits);
      }
    }
  }
}

HWY_INLINE void decode(Q3_K, Block b, float* into) {
  Elements<256> elements;
  q3_elements(b, b + 32, elements.at);
  const auto nibbles = number_at<std::uint64_t>(b + 96);
  const std::uint64_t fields = number_at<std::uint32_t>(b + 104);
  const std::uint64_t first_fields = (fields | (fields << 30)) & each_byte(3);
  const std::uint64_t last_fields = ((fields >> 4) | (fields << 26)) & each_byte(3);
  Elements<16> scale_elements;
  store_eight(subtract_from_each((nibbles & each_byte(15)) | (first_fields << 4), 32), scale_elements.at);
  store_eight(subtract_from_each(((nibbles >> 4) & each_byte(15)) | (last_fields << 4), 32),
              scale_elements.at + 8);
  float scales[16];
  scale<16>(scale_elements.at, half_at(b + 108), scales);
  scale_sixteens(elements.at, scales, into);
}

/// The scales and offsets of Q4_K and Q5_K, for 32 elements each.
struct KScales {
  float scales[8];
  float offsets[8];
};

HWY_INLINE KScales k_scales(Block b) {
  const ScaleBytes bytes = scale_bytes(b);
  // Stored as 8-byte words: an 8-byte load after two 4-byte stores would stall on store forwarding.
  Elements<16> elements;
  store_eight(bytes.scales, elements.at);
  store_eight(bytes.offsets, elements.at + 8);
  KScales result;
  scale<8>(elements.at, half_at(b), result.scales);
  scale<8>(elements.at + 8, half_at(b + 2), result.offsets);
  return result;
}

HWY_INLINE void decode(Q4_K, Block b, float* into) {
  KScales k = k_scales(b);
  reload(k);
  for (std::size_t i = 0; i < 8; i += 2) {
    Elements<64> elements;
    split_nibbles<32>(b + 16 + 16 * i, elements.at, elements.at + 32);
    reload(elements);
    scale_and_subtract<32>(elements.at, k.scales[i], k.offsets[i], into + 32 * i);
    scale_and_subtract<32>(elements.at + 32, k.scales[i + 1], k.offsets[i + 1], into + 32 * i + 32);
  }
}

HWY_INLINE void decode(Q5_K, Block b, float* into) {
  Elements<256> elements;
  q5_k_elements(b, elements.at);
  const KScales k = k_scales(b);
  for (std::size_t i = 0; i < 8; ++i) {
    scale_and_subtract<32>(elements.at + 32 * i, k.scales[i], k.offsets[i], into + 32 * i);
  }
}

HWY_INLINE void decode(Q6_K, Block b, float* into) {
  Elements<256> elements;
  q6_k_elements(b, b + 128, elements.at);
  q6_k_elements(b + 64, b + 160, elements.at + 128);
  float scales[16];
  scale<16>(as_int8(b + 192), half_at(b + 208), scales);
  scale_sixteens(elements.at, scales, into);
}

HWY_INLINE void decode(IQ2_XXS, Block b, float* into) {
  const float d = half_at(b);
  for (std::size_t i = 0; i < 8; ++i) {
    const Block indexes = b + 2 + 8 * i;
    const auto word = number_at<std::uint32_t>(indexes + 4);
    Elements<32> elements;
    for (std::size_t group = 0; group < 4; ++group) {
      const std::size_t signs = iq::iq_signs[(word >> (7 * group)) & 127];
      store_eight(with_signs(iq::iq2xxs_grid[indexes[group]], signs), elements.at + 8 * group);
    }
    scale<32>(elements.at, d * (0.5F + static_cast<float>(word >> 28)) * 0.25F, into + 32 * i);
  }
}

/// Scales 256 elements of IQ2_XS or IQ2_S.
HWY_INLINE void iq2_scale(const std::int8_t* elements, float d, Block nibbles, float* into) {
  for (std::size_t i = 0; i < 8; ++i) {
    const auto low = static_cast<float>(nibbles[i] & 15);
    const auto high = static_cast<float>(nibbles[i] >> 4);
    scale<16>(elements + 32 * i, d * (0.5F + low) * 0.25F, into + 32 * i);
    scale<16>(elements + 32 * i + 16, d * (0.5F + high) * 0.25F, into + 32 * i + 16);
  }
}

HWY_INLINE void decode(IQ2_XS, Block b, float* into) {
  Elements<256> elements;
  for (std::size_t i = 0; i < 32; ++i) {
    const std::uint32_t word = number_at<std::uint16_t>(b + 2 + 2 * i);
    store_eight(with_signs(iq::iq2xs_grid[word & 511], iq::iq_signs[word >> 9]), elements.at + 8 * i);
  }
  iq2_scale(elements.at, half_at(b), b + 66, into);
}

HWY_INLINE void decode(IQ2_S, Block b, float* into) {
  Elements<256> elements;
  for (std::size_t i = 0; i < 32; ++i) {
    const std::size_t high = (static_cast<std::size_t>(b[66 + i / 4]) >> (2 * (i % 4))) & 3;
    store_eight(with_signs(iq::iq2s_grid[b[2 + i] | (high << 8)], b[34 + i]), elements.at + 8 * i);
  }
  iq2_scale(elements.at, half_at(b), b + 74, into);
}

HWY_INLINE void decode(IQ3_XXS, Block b, float* into) {
  const float d = half_at(b);
  for (std::size_t i = 0; i < 8; ++i) {
    const Block indexes = b + 2 + 8 * i;
    const auto word = number_at<std::uint32_t>(b + 66 + 4 * i);
    Elements<32> elements;
    for (std::size_t group = 0; group < 4; ++group) {
      const std::uint64_t first = iq::iq3xxs_grid[indexes[2 * group]];
      const std::uint64_t second = iq::iq3xxs_grid[indexes[2 * group + 1]];
      const std::size_t signs = iq::iq_signs[(word >> (7 * group)) & 127];
      store_eight(with_signs(first | (second << 32), signs), elements.at + 8 * group);
    }
    scale<32>(elements.at, d * (0.5F + static_cast<float>(word >> 28)) * 0.5F, into + 32 * i);
  }
}

HWY_INLINE void decode(IQ3_S, Block b, float* into) {
  const float d = half_at(b);
  for (std::size_t i = 0; i < 8; ++i) {
    const Block indexes = b + 2 + 8 * i;
    const std::size_t ninths = b[66 + i];
    Elements<32> elements;
    for (std::size_t group = 0; group < 4; ++group) {
      const std::uint64_t first = iq::iq3s_grid[indexes[2 * group] | ((ninths << (8 - 2 * group)) & 256)];
      const std::uint64_t second =
          iq::iq3s_grid[indexes[2 * group + 1] | ((ninths << (7 - 2 * group)) & 256)];
      store_eight(with_signs(first | (second << 32), b[74 + 4 * i + group]), elements.at + 8 * group);
    }
    const int nibble = (b[106 + i / 2] >> (4 * (i % 2))) & 15;
    scale<32>(elements.at, d * static_cast<float>(1 + 2 * nibble), into + 32 * i);
  }
}

/// 8 · (an entry of the IQ1 grid ± 1/8); the shift is negative if `negative` is 1. Decoders multiply the
/// scale by 0.125, which is exact, so the results have the bits of decode_reference.hpp.
HWY_INLINE std::uint64_t iq1_elements(std::size_t index, std::uint64_t negative) {
  const std::uint64_t eightfold = (iq::iq1s_grid[index] & each_byte(0x1F)) << 3;
  return ((eightfold ^ each_byte(0x80)) + each_byte(1) - negative * each_byte(2)) ^ each_byte(0x80);
}

HWY_INLINE void decode(IQ1_S, Block b, float* into) {
  const float d = half_at(b);
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint32_t word = number_at<std::uint16_t>(b + 34 + 2 * i);
    Elements<32> elements;
    for (std::size_t group = 0; group < 4; ++group) {
      const std::size_t high = (word >> (3 * group)) & 7;
      const std::size_t index = b[2 + 4 * i + group] | (high << 8);
      store_eight(iq1_elements(index, word >> 15), elements.at + 8 * group);
    }
    scale<32>(elements.at, d * static_cast<float>(2 * ((word >> 12) & 7) + 1) * 0.125F, into + 32 * i);
  }
}

HWY_INLINE void decode(IQ1_M, Block b, float* into) {
  const auto words = number_at<std::uint64_t>(b + 48);
  const auto d_bits = ((words >> 12) & 0x000FU) | ((words >> 24) & 0x00F0U) | ((words >> 36) & 0x0F00U) |
                      ((words >> 48) & 0xF000U);
  const float d = half(static_cast<std::uint32_t>(d_bits));
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t high = b[32 + i];
    Elements<16> elements;
    store_eight(iq1_elements(b[2 * i] | ((high & 7) << 8), (high >> 3) & 1), elements.at);
    store_eight(iq1_elements(b[2 * i + 1] | ((high & 0x70) << 4), high >> 7), elements.at + 8);
    const auto bits = static_cast<std::uint32_t>(words >> (16 * (i / 4) + 3 * (i % 4))) & 7U;
    scale<16>(elements.at, d * static_cast<float>(2 * bits + 1) * 0.125F, into + 16 * i);
  }
}

HWY_INLINE void decode(IQ4_NL, Block b, float* into) {
  Elements<32> elements;
  look_up_nibbles<16>(iq::iq4nl_values.data(), b + 2, elements.at, elements.at + 16);
  scale<32>(elements.at, half_at(b), into);
}

HWY_INLINE void decode(IQ4_XS, Block b, float* into) {
  const float d = half_at(b);
  const std::uint32_t high = number_at<std::uint16_t>(b + 2);
  const auto low = number_at<std::uint32_t>(b + 4);
  for (std::size_t i = 0; i < 8; ++i) {
    Elements<32> elements;
    look_up_nibbles<16>(iq::iq4nl_values.data(), b + 8 + 16 * i, elements.at, elements.at + 16);
    const std::uint32_t bits = ((low >> (4 * i)) & 15U) | (((high >> (2 * i)) & 3U) << 4);
    scale<32>(elements.at, d * static_cast<float>(static_cast<int>(bits) - 32), into + 32 * i);
  }
}

/// Decodes `Digits` elements from each of `Count` bytes, which are base-3 fractions: the first digits of all
/// bytes first.
template <std::size_t Count, std::size_t Digits>
HWY_INLINE void split_ternary(Block bytes, std::int8_t* elements) {
  const BytesTag<Count> tag;
  const hn::RebindToSigned<BytesTag<Count>> integers;
  const auto one_third = hn::Set(tag, std::uint8_t{85});
  const auto two_thirds = hn::Set(tag, std::uint8_t{170});
  for (std::size_t i = 0; i < Count; i += hn::Lanes(tag)) {
    auto fraction = hn::LoadU(tag, bytes + i);
    for (std::size_t digit = 0; digit < Digits; ++digit) {
      // A true mask lane is -1.
      const auto above_one = hn::BitCast(integers, hn::VecFromMask(tag, hn::Gt(fraction, one_third)));
      const auto above_two = hn::BitCast(integers, hn::VecFromMask(tag, hn::Gt(fraction, two_thirds)));
      const auto element = hn::Sub(hn::Sub(hn::Set(integers, std::int8_t{-1}), above_one), above_two);
      hn::StoreU(element, integers, elements + Count * digit + i);
      fraction = hn::Add(hn::Add(fraction, fraction), fraction);
    }
  }
}

HWY_INLINE void decode(TQ1_0, Block b, float* into) {
  Elements<256> elements;
  split_ternary<32, 5>(b, elements.at);
  split_ternary<16, 5>(b + 32, elements.at + 160);
  split_ternary<4, 4>(b + 48, elements.at + 240);
  scale<256>(elements.at, half_at(b + 52), into);
}

HWY_INLINE void decode(TQ2_0, Block b, float* into) {
  Elements<256> elements;
  split_two_bit_fields<1>(b, elements.at);
  split_two_bit_fields<1>(b + 32, elements.at + 128);
  scale<256>(elements.at, half_at(b + 64), into);
}

HWY_INLINE void decode(MXFP4, Block b, float* into) {
  Elements<32> elements;
  look_up_nibbles<16>(iq::fp4_values.data(), b + 1, elements.at, elements.at + 16);
  const std::uint32_t e = b[0];
  scale<32>(elements.at, std::bit_cast<float>(e < 2 ? 0x00200000U << e : (e - 1) << 23), into);
}

HWY_INLINE float nvfp4_scale(std::uint32_t code) {
  if (code == 0x7F) return 0.F;
  const std::uint32_t exponent = (code >> 3) & 15;
  const std::uint32_t mantissa = code & 7;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10F;
  return std::bit_cast<float>(((exponent + 119) << 23) | (mantissa << 20));
}

HWY_INLINE void decode(NVFP4, Block b, float* into) {
  Elements<32> low;
  Elements<32> high;
  look_up_nibbles<32>(iq::fp4_values.data(), b + 4, low.at, high.at);
  for (std::size_t i = 0; i < 4; ++i) {
    const float d = nvfp4_scale(b[i]);
    scale<8>(low.at + 8 * i, d, into + 16 * i);
    scale<8>(high.at + 8 * i, d, into + 16 * i + 8);
  }
}

HWY_INLINE void decode(Q1_0, Block b, float* into) {
  const Floats<8> tag;
  const hn::Rebind<std::int32_t, Floats<8>> integers;
  const hn::Rebind<std::int8_t, Floats<8>> bytes;
  const auto d = hn::Set(tag, half_at(b));
  for (std::size_t i = 0; i < 16; ++i) {
    // The sign bit of a byte, then of a float, is set if the element is -d. The sign of a NaN is flipped too.
    Elements<8> signs;
    store_eight((spread_bits(b[2 + i]) << 7) ^ each_byte(0x80), signs.at);
    for (std::size_t j = 0; j < 8; j += hn::Lanes(tag)) {
      const auto sign = hn::ShiftLeft<24>(hn::PromoteTo(integers, hn::LoadU(bytes, signs.at + j)));
      hn::StoreU(hn::Xor(d, hn::BitCast(tag, sign)), tag, into + 8 * i + j);
    }
  }
}

HWY_INLINE void decode(Q2_0, Block b, float* into) {
  Elements<64> elements;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::uint64_t fields = number_at<std::uint16_t>(b + 2 + 2 * i);
    store_eight(subtract_from_each(spread_two_bit_fields(fields), 1), elements.at + 8 * i);
  }
  scale<64>(elements.at, half_at(b), into);
}

template <class Encoding>
void decode_each(Block blocks, std::int64_t count, float* into) noexcept {
  for (; count > 0; --count) {
    decode(Encoding{}, blocks, into);
    blocks += Encoding::block_bytes;
    into += Encoding::block_elements;
  }
}

using Decode = void (*)(Block, std::int64_t, float*) noexcept;

struct Decoders {
  Decode by_tag[256] = {};
};

template <class... Es>
constexpr Decoders decoders_of(EncodingList<Es...>) {
  Decoders decoders;
  ((decoders.by_tag[static_cast<int>(Es::tag)] = &decode_each<Es>), ...);
  return decoders;
}

constexpr Decoders decoders = decoders_of(AllEncodings{});

void decode_all(EncodingTag encoding, const std::byte* blocks, std::int64_t count, float* into) noexcept {
  const Decode decode_encoding = decoders.by_tag[static_cast<int>(encoding)];
  if (decode_encoding != nullptr) decode_encoding(reinterpret_cast<Block>(blocks), count, into);
}

}  // namespace
}  // namespace ht::inline v1::decode_kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace ht::inline v1 {

bool can_decode(EncodingTag encoding) noexcept {
  return visit_encoding(encoding, [](auto) {});
}

void decode_blocks(EncodingTag encoding, const std::byte* blocks, std::int64_t count, float* into) noexcept {
  using namespace decode_kernels;
  HT_CHOOSE_TARGET(decode_all)(encoding, blocks, count, into);
}

}  // namespace ht::inline v1

#endif
