// Vectors of N floats, 8, 16 or 32, for the kernels of dot products, on every target of Highway.
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

// The scalar target has arrays in place of registers: forced inlining would only slow down compilation.
#undef HT_DOT_INLINE
#if HWY_TARGET == HWY_SCALAR
#define HT_DOT_INLINE inline
#else
#define HT_DOT_INLINE HWY_INLINE
#endif

// AVX2, alone or as a part of AVX-512.
#undef HT_DOT_AVX2
#define HT_DOT_AVX2 (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/memory_hints.hpp"
#include "values/blocks/k_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::compute::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using namespace k_blocks::HWY_NAMESPACE;

using Block = const std::uint8_t*;

template <std::size_t N>
using FloatTag = hn::CappedTag<float, N>;
template <std::size_t N>
using IntTag = hn::Rebind<std::int32_t, FloatTag<N>>;
template <std::size_t N>
using WordTag = hn::Rebind<std::uint32_t, FloatTag<N>>;
template <std::size_t N>
using HalfTag = hn::Rebind<std::uint16_t, FloatTag<N>>;
template <std::size_t N>
using ByteTag = hn::Rebind<std::uint8_t, FloatTag<N>>;
template <std::size_t N>
using SignedByteTag = hn::Rebind<std::int8_t, FloatTag<N>>;

/// Lanes of one register, and registers of one vector.
template <std::size_t N>
constexpr std::size_t lanes = hn::MaxLanes(FloatTag<N>());
template <std::size_t N>
constexpr std::size_t parts = N / lanes<N>;

template <std::size_t N>
struct Floats {
  hn::Vec<FloatTag<N>> part[parts<N>];
};
template <std::size_t N>
struct Ints {
  hn::Vec<IntTag<N>> part[parts<N>];
};

template <std::size_t N>
HT_DOT_INLINE Floats<N> set_floats(float value) {
  Floats<N> result;
  for (auto& part : result.part) part = hn::Set(FloatTag<N>(), value);
  return result;
}

template <std::size_t N>
HT_DOT_INLINE Floats<N> load_floats(const float* from) {
  Floats<N> result;
  for (std::size_t i = 0; i < parts<N>; ++i) result.part[i] = hn::LoadU(FloatTag<N>(), from + lanes<N> * i);
  return result;
}

template <std::size_t N>
HT_DOT_INLINE void store_floats(Floats<N> floats, float* into) {
  for (std::size_t i = 0; i < parts<N>; ++i) hn::StoreU(floats.part[i], FloatTag<N>(), into + lanes<N> * i);
}

template <std::size_t N>
HT_DOT_INLINE Floats<N> operator+(Floats<N> a, Floats<N> b) {
  for (std::size_t i = 0; i < parts<N>; ++i) a.part[i] = hn::Add(a.part[i], b.part[i]);
  return a;
}
template <std::size_t N>
HT_DOT_INLINE Floats<N> operator-(Floats<N> a, Floats<N> b) {
  for (std::size_t i = 0; i < parts<N>; ++i) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}
template <std::size_t N>
HT_DOT_INLINE Floats<N> operator*(Floats<N> a, Floats<N> b) {
  for (std::size_t i = 0; i < parts<N>; ++i) a.part[i] = hn::Mul(a.part[i], b.part[i]);
  return a;
}
template <std::size_t N>
HT_DOT_INLINE Floats<N> operator/(Floats<N> a, Floats<N> b) {
  for (std::size_t i = 0; i < parts<N>; ++i) a.part[i] = hn::Div(a.part[i], b.part[i]);
  return a;
}
template <std::size_t N>
HT_DOT_INLINE Floats<N> abs_of(Floats<N> a) {
  for (auto& part : a.part) part = hn::Abs(part);
  return a;
}
template <std::size_t N>
HT_DOT_INLINE Floats<N> max_of(Floats<N> a, Floats<N> b) {
  for (std::size_t i = 0; i < parts<N>; ++i) a.part[i] = hn::Max(a.part[i], b.part[i]);
  return a;
}

/// a · b + c with one rounding, for one register. Targets without a fused instruction call std::fma, so all
/// targets give the same bits.
template <class Vector>
HT_DOT_INLINE Vector multiply_add_part(Vector a, Vector b, Vector c) {
#if HT_DOT_AVX2 || HWY_ARCH_ARM_A64
  return hn::MulAdd(a, b, c);
#else
  const hn::DFromV<Vector> tag;
  constexpr std::size_t count = hn::MaxLanes(hn::DFromV<Vector>());
  float factors[count];
  float others[count];
  float sums[count];
  hn::StoreU(a, tag, factors);
  hn::StoreU(b, tag, others);
  hn::StoreU(c, tag, sums);
  for (std::size_t i = 0; i < count; ++i) sums[i] = std::fma(factors[i], others[i], sums[i]);
  return hn::LoadU(tag, sums);
#endif
}

template <std::size_t N>
HT_DOT_INLINE Floats<N> multiply_add(Floats<N> a, Floats<N> b, Floats<N> c) {
  for (std::size_t i = 0; i < parts<N>; ++i) c.part[i] = multiply_add_part(a.part[i], b.part[i], c.part[i]);
  return c;
}

/// Adds lanes i and i + 4 first, then i and i + 2, then the last two.
HT_DOT_INLINE float sum_of_lanes(Floats<8> floats) {
#if HT_DOT_AVX2
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
/// Adds lanes i and i + 8 first, then the 8 sums.
HT_DOT_INLINE float sum_of_lanes(Floats<16> floats) {
#if HWY_TARGET == HWY_AVX3
  Floats<8> sums;
  sums.part[0].raw = _mm256_add_ps(_mm512_castps512_ps256(floats.part[0].raw),
                                   _mm512_extractf32x8_ps(floats.part[0].raw, 1));
  return sum_of_lanes(sums);
#else
  Floats<8> sums;
  for (std::size_t i = 0; i < parts<8>; ++i)
    sums.part[i] = hn::Add(floats.part[i], floats.part[i + parts<8>]);
  return sum_of_lanes(sums);
#endif
}

/// Adds lanes i and i + 16 first, then the 16 sums.
HT_DOT_INLINE float sum_of_lanes(Floats<32> floats) {
  Floats<16> sums;
  for (std::size_t i = 0; i < parts<16>; ++i)
    sums.part[i] = hn::Add(floats.part[i], floats.part[i + parts<16>]);
  return sum_of_lanes(sums);
}

template <std::size_t N>
HT_DOT_INLINE Ints<N> set_ints(std::int32_t value) {
  Ints<N> result;
  for (auto& part : result.part) part = hn::Set(IntTag<N>(), value);
  return result;
}
template <std::size_t N>
HT_DOT_INLINE Ints<N> load_ints(const std::int32_t* from) {
  Ints<N> result;
  for (std::size_t i = 0; i < parts<N>; ++i) result.part[i] = hn::LoadU(IntTag<N>(), from + lanes<N> * i);
  return result;
}
template <std::size_t N>
HT_DOT_INLINE Ints<N> operator+(Ints<N> a, Ints<N> b) {
  for (std::size_t i = 0; i < parts<N>; ++i) a.part[i] = hn::Add(a.part[i], b.part[i]);
  return a;
}
template <std::size_t N>
HT_DOT_INLINE Ints<N> operator&(Ints<N> a, Ints<N> b) {
  for (std::size_t i = 0; i < parts<N>; ++i) a.part[i] = hn::And(a.part[i], b.part[i]);
  return a;
}
template <std::size_t N>
HT_DOT_INLINE Ints<N> operator-(Ints<N> a, Ints<N> b) {
  for (std::size_t i = 0; i < parts<N>; ++i) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}
template <int Bits, std::size_t N>
HT_DOT_INLINE Ints<N> shift_left(Ints<N> a) {
  for (auto& part : a.part) part = hn::ShiftLeft<Bits>(part);
  return a;
}
template <int Bits, std::size_t N>
HT_DOT_INLINE Ints<N> shift_right(Ints<N> a) {
  for (auto& part : a.part) part = hn::ShiftRight<Bits>(part);
  return a;
}

template <std::size_t N>
HT_DOT_INLINE Floats<N> to_floats(Ints<N> ints) {
  Floats<N> result;
  for (std::size_t i = 0; i < parts<N>; ++i) result.part[i] = hn::ConvertTo(FloatTag<N>(), ints.part[i]);
  return result;
}

/// Rounds numbers from -127 to 127 to nearest, ties to even. Other numbers are clamped to that range.
template <std::size_t N>
HT_DOT_INLINE void store_rounded(Floats<N> numbers, std::int8_t* into) {
  // Adding this constant shifts the fraction bits out of the float; the integer part remains.
  constexpr float magic = 12582912.F;
  for (std::size_t i = 0; i < parts<N>; ++i) {
    const auto limit = hn::Set(FloatTag<N>(), 127.F);
    const auto inside = hn::Max(hn::Min(numbers.part[i], limit), hn::Neg(limit));
    const auto moved = hn::BitCast(IntTag<N>(), hn::Add(inside, hn::Set(FloatTag<N>(), magic)));
    const auto rounded = hn::Sub(moved, hn::BitCast(IntTag<N>(), hn::Set(FloatTag<N>(), magic)));
    hn::StoreU(hn::DemoteTo(SignedByteTag<N>(), rounded), SignedByteTag<N>(), into + lanes<N> * i);
  }
}

/// N bytes as integers.
template <std::size_t N>
HT_DOT_INLINE Ints<N> widen_unsigned(Block bytes) {
  Ints<N> result;
  for (std::size_t i = 0; i < parts<N>; ++i)
    result.part[i] = hn::PromoteTo(IntTag<N>(), hn::LoadU(ByteTag<N>(), bytes + lanes<N> * i));
  return result;
}
template <std::size_t N>
HT_DOT_INLINE Ints<N> widen_signed(const std::int8_t* bytes) {
  Ints<N> result;
  for (std::size_t i = 0; i < parts<N>; ++i)
    result.part[i] = hn::PromoteTo(IntTag<N>(), hn::LoadU(SignedByteTag<N>(), bytes + lanes<N> * i));
  return result;
}

HT_DOT_INLINE const std::int8_t* as_int8(Block bytes) { return reinterpret_cast<const std::int8_t*>(bytes); }

template <class T>
HT_DOT_INLINE T number_at(Block bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// Prefetches for a kernel that reads R neighbouring rows in steps. Near the end of row r, the prefetch
/// continues in row r + R, which is multiplied next: an address beyond the end of row r is in row r + 1, to
/// which `bytes_to_last_row` adds R - 1 rows.
template <std::size_t R>
struct RowPrefetch {
  HT_DOT_INLINE RowPrefetch(const Block* rows, std::size_t bytes)
      : row_bytes(bytes), bytes_to_last_row(static_cast<std::uintptr_t>(rows[R - 1] - rows[0])) {}

  /// For the step of `Bytes` bytes that starts at `offset` of each row. The step has ⌈Bytes / 64⌉
  /// prefetches, so some lines are prefetched twice if `Bytes` is not a multiple of 64.
  template <std::size_t Bytes>
  HT_DOT_INLINE void step(const Block* rows, std::size_t offset) const {
    const std::uintptr_t distance =
        prefetch_distance / R + (offset + prefetch_distance / R < row_bytes ? 0 : bytes_to_last_row);
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (std::size_t line = 0; line < Bytes; line += 64) prefetch(rows[r] + offset + line, distance);
    }
  }

  std::size_t row_bytes;
  /// From the first to the last of the R rows.
  std::uintptr_t bytes_to_last_row;
};

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
template <std::size_t N>
HT_DOT_INLINE hn::Vec<FloatTag<N>> half_floats(hn::Vec<HalfTag<N>> codes) {
  const FloatTag<N> floats;
#if HT_DOT_AVX2
  return hn::PromoteTo(floats, hn::BitCast(hn::Rebind<hwy::float16_t, FloatTag<N>>(), codes));
#else
  // Without an F16 instruction, Highway's promotion does not support infinities.
  const WordTag<N> words;
  const auto code = hn::PromoteTo(words, codes);
  const auto sign = hn::ShiftLeft<16>(hn::And(code, hn::Set(words, 0x8000U)));
  const auto magnitude = hn::And(code, hn::Set(words, 0x7FFFU));
  const auto moved = hn::ShiftLeft<13>(magnitude);
  const auto normal = hn::Add(moved, hn::Set(words, 112U << 23));
  // An integer below 2^10 times 2^-24: exact, and no operand is subnormal.
  const IntTag<N> ints;
  const auto small = hn::Mul(hn::ConvertTo(floats, hn::BitCast(ints, magnitude)), hn::Set(floats, 0x1p-24F));
  const auto large = hn::Or(moved, hn::Set(words, 0x7F800000U));
  const auto number = hn::BitCast(ints, magnitude);
  const auto is_small = hn::RebindMask(words, hn::Lt(number, hn::Set(ints, 0x0400)));
  const auto is_large = hn::RebindMask(words, hn::Gt(number, hn::Set(ints, 0x7BFF)));
  const auto finite = hn::IfThenElse(is_small, hn::BitCast(words, small), normal);
  return hn::BitCast(floats, hn::Or(sign, hn::IfThenElse(is_large, large, finite)));
#endif
}

/// The F16 at `bytes`.
HT_DOT_INLINE float half_at(Block bytes) {
#if HT_DOT_AVX2
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(number_at<std::uint16_t>(bytes))));
#else
  return hn::GetLane(half_floats<8>(hn::Set(HalfTag<8>(), number_at<std::uint16_t>(bytes))));
#endif
}

/// The F16 at `bytes`, in all lanes.
template <std::size_t N>
HT_DOT_INLINE Floats<N> set_half(Block bytes) {
  const auto code = number_at<std::uint16_t>(bytes);
  Floats<N> result;
  const auto value = half_floats<N>(hn::Set(HalfTag<N>(), code));
  for (auto& part : result.part) part = value;
  return result;
}

/// Makes the compiler load the object from memory instead of forwarding its stores in registers. A load can
/// copy one number to all lanes at no extra cost; from a register, this takes a shuffle.
template <class T>
HT_DOT_INLINE void reload(T& object) {
#if defined(__GNUC__)
  asm volatile("" : "+m"(object));
#endif
}

#if HT_DOT_AVX2
/// The eight 6-bit scales of Q4_K or Q5_K, followed by the eight offsets.
HT_DOT_INLINE __m128i k_scale_bytes(Block b) {
  // Words 1 and 2 have the first four scales and offsets, with the upper bits of the last four above them.
  // Word 3 has the lower bits of the last four.
  const __m128i stored = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b));
  const __m128i low = _mm_srlv_epi32(_mm_shuffle_epi32(stored, 0b11'10'11'01), _mm_setr_epi32(0, 0, 0, 4));
  const __m128i high = _mm_srli_epi32(_mm_shuffle_epi32(stored, 0b10'10'01'01), 2);
  const __m128i low_mask = _mm_setr_epi32(0x3F3F3F3F, 0x0F0F0F0F, 0x3F3F3F3F, 0x0F0F0F0F);
  const __m128i high_mask = _mm_setr_epi32(0, 0x30303030, 0, 0x30303030);
  return _mm_or_si128(_mm_and_si128(low, low_mask), _mm_and_si128(high, high_mask));
}
#endif

/// Stores the scales and offsets as bytes.
HT_DOT_INLINE void store_k_scale_bytes(Block b, std::uint8_t* bytes) {
#if HT_DOT_AVX2
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), k_scale_bytes(b));
#else
  const ScaleBytes both = scale_bytes(b);
  std::memcpy(bytes, &both, sizeof both);
#endif
}

/// The eight scales times d, followed by the eight offsets times dmin.
HT_DOT_INLINE void k_scales(Block b, float* into) {
#if HWY_TARGET == HWY_AVX3
  // d in the lower eight lanes, dmin in the upper ones.
  const __m256i lanes_of_d = _mm256_inserti128_si256(_mm256_set1_epi16(0x0100), _mm_set1_epi16(0x0302), 1);
  const __m256i both = _mm256_set1_epi32(number_at<std::int32_t>(b));
  const __m512 d = _mm512_cvtph_ps(_mm256_shuffle_epi8(both, lanes_of_d));
  _mm512_storeu_ps(into, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(k_scale_bytes(b))), d));
#else
  std::uint8_t bytes[16];
  store_k_scale_bytes(b, bytes);
  reload(bytes);
  store_floats(to_floats(widen_unsigned<8>(bytes)) * set_half<8>(b), into);
  store_floats(to_floats(widen_unsigned<8>(bytes + 8)) * set_half<8>(b + 2), into + 8);
#endif
}

}  // namespace
}  // namespace ht::inline v1::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
