// Vectors of 8 floats for the kernels of dot products, on every target of Highway.
//
// A target with shorter registers uses several of them for one vector, so lanes and the order of sums are the
// same on all targets. Highway includes this file once per target.

#if defined(HT_COMPUTE_DOT_VECTORS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HT_COMPUTE_DOT_VECTORS_HPP
#undef HT_COMPUTE_DOT_VECTORS_HPP
#else
#define HT_COMPUTE_DOT_VECTORS_HPP
#endif

#include <hwy/highway.h>

// The scalar target uses arrays; inlining and unrolling them would only slow down compilation.
#undef HT_DOT_INLINE
#if HWY_TARGET == HWY_SCALAR
#define HT_DOT_INLINE inline
#else
#define HT_DOT_INLINE HWY_INLINE
#endif

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/prefetch.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::compute::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Block = const std::uint8_t*;

using FloatTag = hn::CappedTag<float, 8>;
using IntTag = hn::Rebind<std::int32_t, FloatTag>;
using WordTag = hn::Rebind<std::uint32_t, FloatTag>;
using HalfTag = hn::Rebind<std::uint16_t, FloatTag>;
using ByteTag = hn::Rebind<std::uint8_t, FloatTag>;
using SignedByteTag = hn::Rebind<std::int8_t, FloatTag>;

constexpr std::size_t lanes = hn::MaxLanes(FloatTag());
constexpr std::size_t parts = 8 / lanes;

struct Floats {
  hn::Vec<FloatTag> part[parts];
};
struct Ints {
  hn::Vec<IntTag> part[parts];
};

HT_DOT_INLINE Floats set_floats(float value) {
  Floats result;
  for (auto& part : result.part) part = hn::Set(FloatTag(), value);
  return result;
}

HT_DOT_INLINE Floats load_floats(const float* from) {
  Floats result;
  for (std::size_t i = 0; i < parts; ++i) result.part[i] = hn::LoadU(FloatTag(), from + lanes * i);
  return result;
}

HT_DOT_INLINE void store_floats(Floats floats, float* into) {
  for (std::size_t i = 0; i < parts; ++i) hn::StoreU(floats.part[i], FloatTag(), into + lanes * i);
}

HT_DOT_INLINE Floats operator+(Floats a, Floats b) {
  for (std::size_t i = 0; i < parts; ++i) a.part[i] = hn::Add(a.part[i], b.part[i]);
  return a;
}
HT_DOT_INLINE Floats operator-(Floats a, Floats b) {
  for (std::size_t i = 0; i < parts; ++i) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}
HT_DOT_INLINE Floats operator*(Floats a, Floats b) {
  for (std::size_t i = 0; i < parts; ++i) a.part[i] = hn::Mul(a.part[i], b.part[i]);
  return a;
}

HT_DOT_INLINE Floats operator/(Floats a, Floats b) {
  for (std::size_t i = 0; i < parts; ++i) a.part[i] = hn::Div(a.part[i], b.part[i]);
  return a;
}
HT_DOT_INLINE Floats abs_of(Floats a) {
  for (auto& part : a.part) part = hn::Abs(part);
  return a;
}
HT_DOT_INLINE Floats max_of(Floats a, Floats b) {
  for (std::size_t i = 0; i < parts; ++i) a.part[i] = hn::Max(a.part[i], b.part[i]);
  return a;
}

/// a · b + c with one rounding. Targets without a fused instruction call std::fma, so all targets give the
/// same bits.
HT_DOT_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
#if HWY_TARGET == HWY_AVX2 || HWY_ARCH_ARM_A64
  for (std::size_t i = 0; i < parts; ++i) c.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
#else
  float factors[8];
  float others[8];
  float sums[8];
  store_floats(a, factors);
  store_floats(b, others);
  store_floats(c, sums);
  for (std::size_t i = 0; i < 8; ++i) sums[i] = std::fma(factors[i], others[i], sums[i]);
  c = load_floats(sums);
#endif
  return c;
}

/// Adds lanes i and i + 4 first, then i and i + 2, then the last two.
HT_DOT_INLINE float sum_of_lanes(Floats floats) {
#if HWY_TARGET == HWY_AVX2
  const __m256 all = floats.part[0].raw;
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#else
  float at[8];
  store_floats(floats, at);
  for (std::size_t half = 4; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) at[i] += at[i + half];
  }
  return at[0];
#endif
}

HT_DOT_INLINE Ints set_ints(std::int32_t value) {
  Ints result;
  for (auto& part : result.part) part = hn::Set(IntTag(), value);
  return result;
}
HT_DOT_INLINE Ints load_ints(const std::int32_t* from) {
  Ints result;
  for (std::size_t i = 0; i < parts; ++i) result.part[i] = hn::LoadU(IntTag(), from + lanes * i);
  return result;
}
HT_DOT_INLINE Ints operator+(Ints a, Ints b) {
  for (std::size_t i = 0; i < parts; ++i) a.part[i] = hn::Add(a.part[i], b.part[i]);
  return a;
}
HT_DOT_INLINE Ints operator&(Ints a, Ints b) {
  for (std::size_t i = 0; i < parts; ++i) a.part[i] = hn::And(a.part[i], b.part[i]);
  return a;
}
HT_DOT_INLINE Ints operator-(Ints a, Ints b) {
  for (std::size_t i = 0; i < parts; ++i) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}
template <int Bits>
HT_DOT_INLINE Ints shift_left(Ints a) {
  for (auto& part : a.part) part = hn::ShiftLeft<Bits>(part);
  return a;
}
template <int Bits>
HT_DOT_INLINE Ints shift_right(Ints a) {
  for (auto& part : a.part) part = hn::ShiftRight<Bits>(part);
  return a;
}

HT_DOT_INLINE Floats to_floats(Ints ints) {
  Floats result;
  for (std::size_t i = 0; i < parts; ++i) result.part[i] = hn::ConvertTo(FloatTag(), ints.part[i]);
  return result;
}

/// Rounds numbers from -127 to 127 to nearest, ties to even. Other numbers are clamped to that range.
HT_DOT_INLINE void store_rounded(Floats numbers, std::int8_t* into) {
  // Adding this constant shifts the fraction bits out of the float; the integer part remains.
  constexpr float magic = 12582912.F;
  for (std::size_t i = 0; i < parts; ++i) {
    const auto limit = hn::Set(FloatTag(), 127.F);
    const auto inside = hn::Max(hn::Min(numbers.part[i], limit), hn::Neg(limit));
    const auto moved = hn::BitCast(IntTag(), hn::Add(inside, hn::Set(FloatTag(), magic)));
    const auto rounded = hn::Sub(moved, hn::BitCast(IntTag(), hn::Set(FloatTag(), magic)));
    hn::StoreU(hn::DemoteTo(SignedByteTag(), rounded), SignedByteTag(), into + lanes * i);
  }
}

/// 8 bytes as integers.
HT_DOT_INLINE Ints widen_unsigned(Block bytes) {
  Ints result;
  for (std::size_t i = 0; i < parts; ++i)
    result.part[i] = hn::PromoteTo(IntTag(), hn::LoadU(ByteTag(), bytes + lanes * i));
  return result;
}
HT_DOT_INLINE Ints widen_signed(const std::int8_t* bytes) {
  Ints result;
  for (std::size_t i = 0; i < parts; ++i)
    result.part[i] = hn::PromoteTo(IntTag(), hn::LoadU(SignedByteTag(), bytes + lanes * i));
  return result;
}

HT_DOT_INLINE const std::int8_t* as_int8(Block bytes) { return reinterpret_cast<const std::int8_t*>(bytes); }

template <class T>
HT_DOT_INLINE T number_at(Block bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// Prefetches the step of `Bytes` bytes that is read some steps later. With one vector, each byte is read
/// once.
template <std::size_t Bytes, std::size_t Vectors>
HT_DOT_INLINE void prefetch_step(Block step) {
  for (std::size_t line = 0; line < Bytes; line += 64) {
    if constexpr (Vectors == 1) {
      prefetch_once(step + line);
    } else {
      prefetch_reused(step + line);
    }
  }
}

/// Loads a register of elements from an unaligned address.
template <class Tag>
HT_DOT_INLINE hn::Vec<Tag> load_bytes(Tag tag, Block bytes) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(tag, number_at<hn::TFromD<Tag>>(bytes));
#else
  return hn::BitCast(tag, hn::LoadU(hn::Repartition<std::uint8_t, Tag>(), bytes));
#endif
}

/// Converts F16 codes to floats.
HT_DOT_INLINE hn::Vec<FloatTag> half_floats(hn::Vec<HalfTag> codes) {
#if HWY_TARGET == HWY_AVX2
  return hn::PromoteTo(FloatTag(), hn::BitCast(hn::Rebind<hwy::float16_t, FloatTag>(), codes));
#else
  // Without an F16 instruction, Highway's promotion does not support infinities.
  const WordTag words;
  const auto code = hn::PromoteTo(words, codes);
  const auto sign = hn::ShiftLeft<16>(hn::And(code, hn::Set(words, 0x8000U)));
  const auto magnitude = hn::And(code, hn::Set(words, 0x7FFFU));
  const auto moved = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(moved, hn::Set(words, 112U << 23));
  // An integer below 2^10 times 2^-24: exact, and no operand is subnormal.
  const auto small =
      hn::Mul(hn::ConvertTo(FloatTag(), hn::BitCast(IntTag(), magnitude)), hn::Set(FloatTag(), 0x1p-24F));
  const auto large = hn::Or(moved, hn::Set(words, 0x7F800000U));
  const IntTag ints;
  const auto number = hn::BitCast(ints, magnitude);
  const auto is_small = hn::RebindMask(words, hn::Lt(number, hn::Set(ints, 0x0400)));
  const auto is_large = hn::RebindMask(words, hn::Gt(number, hn::Set(ints, 0x7BFF)));
  const auto finite = hn::IfThenElse(is_small, hn::BitCast(words, small), normal);
  return hn::BitCast(FloatTag(), hn::Or(sign, hn::IfThenElse(is_large, large, finite)));
#endif
}

/// The F16 at `bytes`.
HT_DOT_INLINE float half_at(Block bytes) {
  return hn::GetLane(half_floats(hn::Set(HalfTag(), number_at<std::uint16_t>(bytes))));
}

/// The same, in all lanes.
HT_DOT_INLINE Floats set_half(Block bytes) {
  const auto code = number_at<std::uint16_t>(bytes);
  Floats result;
  const auto value = half_floats(hn::Set(HalfTag(), code));
  for (auto& part : result.part) part = value;
  return result;
}

/// Prevents the compiler from forwarding an object from its stores to its loads in registers. A load that
/// repeats a number is free; the same in registers takes shuffles.
template <class T>
HT_DOT_INLINE void reload(T& object) {
#if defined(__GNUC__)
  asm volatile("" : "+m"(object));
#endif
}

/// The eight 6-bit scales of Q4_K or Q5_K, followed by the eight offsets.
HT_DOT_INLINE void k_scale_bytes(Block b, std::uint8_t* bytes) {
#if HWY_TARGET == HWY_AVX2
  // Words 1 and 2 have the first four scales and offsets, with the upper bits of the last four above them.
  // Word 3 has the lower bits of the last four.
  const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
  const __m128i low = _mm_srlv_epi32(_mm_shuffle_epi32(stored, 0b11'10'11'01), _mm_setr_epi32(0, 0, 0, 4));
  const __m128i high = _mm_srli_epi32(_mm_shuffle_epi32(stored, 0b10'10'01'01), 2);
  const __m128i low_mask = _mm_setr_epi32(0x3F3F3F3F, 0x0F0F0F0F, 0x3F3F3F3F, 0x0F0F0F0F);
  const __m128i high_mask = _mm_setr_epi32(0, 0x30303030, 0, 0x30303030);
  const __m128i both = _mm_or_si128(_mm_and_si128(low, low_mask), _mm_and_si128(high, high_mask));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), both);
#else
  const auto low_scales = number_at<std::uint32_t>(b + 4);
  const auto low_offsets = number_at<std::uint32_t>(b + 8);
  const auto high = number_at<std::uint32_t>(b + 12);
  const std::uint32_t words[4] = {
      low_scales & 0x3F3F3F3FU, (high & 0x0F0F0F0FU) | ((low_scales >> 2) & 0x30303030U),
      low_offsets & 0x3F3F3F3FU, ((high >> 4) & 0x0F0F0F0FU) | ((low_offsets >> 2) & 0x30303030U)};
  std::memcpy(bytes, words, sizeof words);
#endif
}

/// The scales times d and the offsets times dmin.
HT_DOT_INLINE void k_scales(Block b, float* scales, float* offsets) {
  std::uint8_t bytes[16];
  k_scale_bytes(b, bytes);
  reload(bytes);
  store_floats(to_floats(widen_unsigned(bytes)) * set_half(b), scales);
  store_floats(to_floats(widen_unsigned(bytes + 8)) * set_half(b + 2), offsets);
}

template <std::size_t Count>
using BytesTag = hn::CappedTag<std::uint8_t, Count>;

template <class Tag, class Vector>
HT_DOT_INLINE void store_elements(Tag /*tag*/, Vector bytes, std::int8_t* elements) {
  const hn::RebindToSigned<Tag> integers;
  hn::StoreU(hn::BitCast(integers, bytes), integers, elements);
}

/// The 256 elements of a block of Q5_K.
HT_DOT_INLINE void q5_k_elements(Block b, std::int8_t* elements) {
  const BytesTag<32> tag;
  const auto mask = hn::Set(tag, std::uint8_t{15});
  const auto fifth = hn::Set(tag, std::uint8_t{16});
  for (std::size_t i = 0; i < 32; i += hn::Lanes(tag)) {
    auto bits = hn::LoadU(tag, b + 16 + i);
    for (std::size_t round = 0; round < 4; ++round) {
      const auto both = hn::LoadU(tag, b + 48 + 32 * round + i);
      const auto first = hn::Or(hn::And(both, mask), hn::And(hn::ShiftLeft<4>(bits), fifth));
      const auto second = hn::Or(hn::ShiftRight<4>(both), hn::And(hn::ShiftLeft<3>(bits), fifth));
      store_elements(tag, first, elements + 64 * round + i);
      store_elements(tag, second, elements + 64 * round + 32 + i);
      bits = hn::ShiftRight<2>(bits);
    }
  }
}

/// Unpacks 128 elements of Q6_K from 64 bytes of low bits and 32 bytes of high bits.
HT_DOT_INLINE void q6_k_elements(Block low, Block high, std::int8_t* elements) {
  const BytesTag<32> tag;
  const auto zero = hn::Set(tag, std::uint8_t{32});
  const auto low_mask = hn::Set(tag, std::uint8_t{15});
  const auto high_mask = hn::Set(tag, std::uint8_t{0x30});
  for (std::size_t i = 0; i < 32; i += hn::Lanes(tag)) {
    const auto bits = hn::LoadU(tag, high + i);
    const auto first = hn::LoadU(tag, low + i);
    const auto second = hn::LoadU(tag, low + 32 + i);
    const auto q1 = hn::Or(hn::And(first, low_mask), hn::And(hn::ShiftLeft<4>(bits), high_mask));
    const auto q2 = hn::Or(hn::And(second, low_mask), hn::And(hn::ShiftLeft<2>(bits), high_mask));
    const auto q3 = hn::Or(hn::ShiftRight<4>(first), hn::And(bits, high_mask));
    const auto q4 = hn::Or(hn::ShiftRight<4>(second), hn::And(hn::ShiftRight<2>(bits), high_mask));
    store_elements(tag, hn::Sub(q1, zero), elements + i);
    store_elements(tag, hn::Sub(q2, zero), elements + 32 + i);
    store_elements(tag, hn::Sub(q3, zero), elements + 64 + i);
    store_elements(tag, hn::Sub(q4, zero), elements + 96 + i);
  }
}

}  // namespace
}  // namespace ht::inline v1::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
