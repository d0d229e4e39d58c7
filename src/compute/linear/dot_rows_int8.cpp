// Kernels for int8 vectors: products of bytes, added in groups of four.
//
// Lane i of 8 is the exact integer sum of the products of elements 4i to 4i + 3 of a group of 32. Blocks of
// 32 elements are one group. Blocks of 256 add 8 groups, each times its integer scale. Lanes are then
// converted to F32 and multiplied by the scales of both sides.
#include "compute/linear/dot_rows.hpp"

#include "compute/linear/dot_targets.hpp"
#include "values/targets.hpp"

#include <algorithm>
#include <cmath>
#include <htensor/dtype/encoding.hpp>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/linear/dot_rows_int8.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "compute/linear/dot_vectors.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::compute::HWY_NAMESPACE {
namespace {

constexpr std::size_t max_batch = 4;

using Bytes32Tag = hn::CappedTag<std::uint8_t, 32>;
using SignedBytes32Tag = hn::RebindToSigned<Bytes32Tag>;

constexpr std::size_t byte_lanes = hn::MaxLanes(Bytes32Tag());
constexpr std::size_t byte_parts = 32 / byte_lanes;

/// 32 elements.
struct Bytes32 {
  hn::Vec<Bytes32Tag> part[byte_parts];
};

HT_DOT_INLINE Bytes32 load_32(Block bytes) {
  Bytes32 result;
  for (std::size_t i = 0; i < byte_parts; ++i)
    result.part[i] = hn::LoadU(Bytes32Tag(), bytes + byte_lanes * i);
  return result;
}
HT_DOT_INLINE Bytes32 low_nibbles(Bytes32 a) {
  for (auto& part : a.part) part = hn::And(part, hn::Set(Bytes32Tag(), std::uint8_t{15}));
  return a;
}
HT_DOT_INLINE Bytes32 high_nibbles(Bytes32 a) {
  for (auto& part : a.part) part = hn::ShiftRight<4>(part);
  return a;
}
/// The low nibbles of 16 bytes, followed by the high nibbles.
HT_DOT_INLINE Bytes32 nibbles_of_16(Block bytes) {
  Bytes32 result;
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < 32; ++i)
    result.part[i] = hn::Set(Bytes32Tag(), static_cast<std::uint8_t>((bytes[i % 16] >> (4 * (i / 16))) & 15));
#else
  const hn::CappedTag<std::uint8_t, 16> tag;
  const auto both = hn::LoadU(tag, bytes);
  const auto low = hn::And(both, hn::Set(tag, std::uint8_t{15}));
  const auto high = hn::ShiftRight<4>(both);
#if HT_DOT_AVX2
  result.part[0] = hn::Combine(Bytes32Tag(), high, low);
#else
  result.part[0] = low;
  result.part[1] = high;
#endif
#endif
  return result;
}

/// `dot_byte_pairs` multiplies bytes and adds each two adjacent products, as int16; `dot_short_pairs`
/// multiplies int16 and adds each two adjacent products, as int32.
#if HT_DOT_AVX2
HT_DOT_INLINE __m256i dot_byte_pairs(__m256i unsigned_bytes, __m256i signed_bytes) {
  return _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
}
HT_DOT_INLINE __m256i dot_short_pairs(__m256i a, __m256i b) { return _mm256_madd_epi16(a, b); }
HT_DOT_INLINE __m256i with_sign_of(__m256i a, __m256i b) { return _mm256_sign_epi8(a, b); }
HT_DOT_INLINE __m256i subtract_shorts(__m256i a, __m256i b) { return _mm256_sub_epi16(a, b); }
#define HT_DOT_HAS_PAIRS 1
#elif HWY_TARGET == HWY_SSE4
HT_DOT_INLINE __m128i dot_byte_pairs(__m128i unsigned_bytes, __m128i signed_bytes) {
  return _mm_maddubs_epi16(unsigned_bytes, signed_bytes);
}
HT_DOT_INLINE __m128i dot_short_pairs(__m128i a, __m128i b) { return _mm_madd_epi16(a, b); }
HT_DOT_INLINE __m128i with_sign_of(__m128i a, __m128i b) { return _mm_sign_epi8(a, b); }
HT_DOT_INLINE __m128i subtract_shorts(__m128i a, __m128i b) { return _mm_sub_epi16(a, b); }
#define HT_DOT_HAS_PAIRS 1
#else
#define HT_DOT_HAS_PAIRS 0
#endif

#if HT_DOT_HAS_PAIRS

HT_DOT_INLINE std::int32_t load_pair(const std::int16_t* pair) {
  std::int32_t both;
  std::memcpy(&both, pair, sizeof both);
  return both;
}

using ShortTag = hn::Repartition<std::int16_t, Bytes32Tag>;

/// Σ a · b for int8 a and b. b is never -128.
HT_DOT_INLINE Ints<8> dot_signed(Bytes32 a, const std::int8_t* b) {
  const auto ones = hn::Set(ShortTag(), std::int16_t{1});
  Ints<8> result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto x = hn::LoadU(SignedBytes32Tag(), b + byte_lanes * i);
    // The magnitude of -128 is 128 as an unsigned byte; a pair of products fits 16 bits.
    const auto magnitude = hn::Abs(hn::BitCast(SignedBytes32Tag(), a.part[i]));
    const auto signed_x = with_sign_of(x.raw, a.part[i].raw);
    result.part[i].raw = dot_short_pairs(dot_byte_pairs(magnitude.raw, signed_x), ones.raw);
  }
  return result;
}

/// Σ (a - ZeroPoint) · b.
template <std::uint8_t ZeroPoint>
HT_DOT_INLINE Ints<8> dot_centred(Bytes32 a, const std::int8_t* b) {
  const auto ones = hn::Set(ShortTag(), std::int16_t{1});
  const auto zero_point = hn::Set(Bytes32Tag(), ZeroPoint);
  Ints<8> result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto x = hn::LoadU(SignedBytes32Tag(), b + byte_lanes * i);
    const auto pairs =
        subtract_shorts(dot_byte_pairs(a.part[i].raw, x.raw), dot_byte_pairs(zero_point.raw, x.raw));
    result.part[i].raw = dot_short_pairs(pairs, ones.raw);
  }
  return result;
}

/// Adds neighbouring products: lane 0 is a[0] · b[0] + a[1] · b[1].
HT_DOT_INLINE Ints<8> dot_shorts(const std::int16_t* a, const std::int16_t* b) {
  constexpr std::size_t short_lanes = hn::MaxLanes(ShortTag());
  Ints<8> result;
  for (std::size_t i = 0; i < parts<8>; ++i) {
    const auto left = hn::LoadU(ShortTag(), a + short_lanes * i);
    const auto right = hn::LoadU(ShortTag(), b + short_lanes * i);
    result.part[i].raw = dot_short_pairs(left.raw, right.raw);
  }
  return result;
}

/// Σ a · b · scale for group `group` of a block. a has unsigned bytes of at most 64, b has int8.
/// `scale_pairs` has the scale of each group twice.
HT_DOT_INLINE Ints<8> dot_scaled(Bytes32 a, const std::int8_t* b, const std::int16_t* scale_pairs,
                                 std::size_t group) {
  const hn::Repartition<std::int32_t, ShortTag> words;
  const auto scale = hn::BitCast(ShortTag(), hn::Set(words, load_pair(scale_pairs + 2 * group)));
  Ints<8> result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto x = hn::LoadU(SignedBytes32Tag(), b + byte_lanes * i);
    result.part[i].raw = dot_short_pairs(dot_byte_pairs(a.part[i].raw, x.raw), scale.raw);
  }
  return result;
}

/// The same as `dot_scaled` with one scale per half of a group. `scales` has the 8 scales of the first halves
/// of all groups, then the 8 scales of the second halves.
HT_DOT_INLINE Ints<8> dot_two_scales(Bytes32 a, const std::int8_t* b, const std::int16_t* scales,
                                     std::size_t group) {
  const hn::Repartition<std::uint8_t, ShortTag> bytes;
  const auto index = hn::Set(hn::Repartition<std::uint16_t, ShortTag>(),
                             static_cast<std::uint16_t>(0x0100U + 0x0202U * group));
  Ints<8> result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto x = hn::LoadU(SignedBytes32Tag(), b + byte_lanes * i);
    const auto all = hn::LoadU(bytes, reinterpret_cast<Block>(scales) + byte_lanes * i);
    const auto scale = hn::BitCast(ShortTag(), hn::TableLookupBytes(all, hn::BitCast(bytes, index)));
    result.part[i].raw = dot_short_pairs(dot_byte_pairs(a.part[i].raw, x.raw), scale.raw);
  }
  return result;
}

#else

// Targets without an instruction for pairs of bytes compute lane by lane.

/// `Element` is the type of the elements of `a`: int8 or uint8.
template <class Element>
HT_DOT_INLINE Ints<8> dot_each(Bytes32 a, const std::int8_t* b, int zero_point, int low_scale,
                               int high_scale) {
  std::uint8_t bytes[32];
  for (std::size_t i = 0; i < byte_parts; ++i) hn::StoreU(a.part[i], Bytes32Tag(), bytes + byte_lanes * i);
  alignas(32) std::int32_t sums[8];
  for (std::size_t i = 0; i < 8; ++i) {
    sums[i] = 0;
    for (std::size_t j = 4 * i; j < 4 * i + 4; ++j)
      sums[i] += (static_cast<Element>(bytes[j]) - zero_point) * b[j] * (i < 4 ? low_scale : high_scale);
  }
  return load_ints<8>(sums);
}

HT_DOT_INLINE Ints<8> dot_signed(Bytes32 a, const std::int8_t* b) {
  return dot_each<std::int8_t>(a, b, 0, 1, 1);
}

template <std::uint8_t ZeroPoint>
HT_DOT_INLINE Ints<8> dot_centred(Bytes32 a, const std::int8_t* b) {
  return dot_each<std::uint8_t>(a, b, ZeroPoint, 1, 1);
}

HT_DOT_INLINE Ints<8> dot_shorts(const std::int16_t* a, const std::int16_t* b) {
  alignas(32) std::int32_t sums[8];
  for (std::size_t i = 0; i < 8; ++i) sums[i] = a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return load_ints<8>(sums);
}

HT_DOT_INLINE Ints<8> dot_scaled(Bytes32 a, const std::int8_t* b, const std::int16_t* scale_pairs,
                                 std::size_t group) {
  return dot_each<std::uint8_t>(a, b, 0, scale_pairs[2 * group], scale_pairs[2 * group]);
}

HT_DOT_INLINE Ints<8> dot_two_scales(Bytes32 a, const std::int8_t* b, const std::int16_t* scales,
                                     std::size_t group) {
  return dot_each<std::uint8_t>(a, b, 0, scales[group], scales[8 + group]);
}

#endif
#undef HT_DOT_HAS_PAIRS

/// Elements, scales and sums of B vectors.
template <std::size_t B>
struct IntVectors {
  const std::int8_t* x[B];
  const float* scales[B];
  const std::int16_t* sums[B];
};

/// Sums of the products of a row with B vectors.
template <std::size_t B>
struct IntSink {
  Floats<8> products[B];
  Floats<8> offsets[B];
};

/// Adds the products of a block of 32 elements, which starts at element `at` of the row, times the F16 at
/// `scale`. `dot(x)` returns the products with a vector.
template <std::size_t B, class Dot>
HT_DOT_INLINE void add_block(Block scale, std::size_t at, const IntVectors<B>& vectors, IntSink<B>& sink,
                             Dot dot) {
  const Floats<8> d = set_half<8>(scale);
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b) {
    const Floats<8> both = d * set_floats<8>(vectors.scales[b][at / 32]);
    sink.products[b] = multiply_add(to_floats(dot(vectors.x[b] + at)), both, sink.products[b]);
  }
}

/// `add_products` adds the products of one block, which starts at element `at` of the row, with B vectors.
template <std::size_t B>
HT_DOT_INLINE void add_products(Q8_0, Block block, std::size_t at, const IntVectors<B>& vectors,
                                IntSink<B>& sink) {
  const Bytes32 elements = load_32(block + 2);
  add_block(block, at, vectors, sink, [&](const std::int8_t* x) HWY_ATTR { return dot_signed(elements, x); });
}

template <std::size_t B>
HT_DOT_INLINE void add_products(Q4_0, Block block, std::size_t at, const IntVectors<B>& vectors,
                                IntSink<B>& sink) {
  const Bytes32 elements = nibbles_of_16(block + 2);
  add_block(block, at, vectors, sink,
            [&](const std::int8_t* x) HWY_ATTR { return dot_centred<8>(elements, x); });
}

/// The scales of a block of 256 elements, which are slow to unpack. Scales of several blocks are prepared
/// before the first block is multiplied, so multiplications do not wait for them.
template <std::size_t B>
struct Prepared {
  /// The first 16 are in the layout that `dot_scaled` or `dot_two_scales` reads. The last 16 are the offsets
  /// of Q4_K and Q5_K, each stored twice, or the scales of Q6_K in stored order.
  alignas(64) std::int16_t scales[32];
  /// For vector b, `factors[b][0]` multiplies the integer sums of products, and `factors[b][1]` those of
  /// offset · x (Q4_K and Q5_K only).
  float factors[B][2];
};

/// The 8 scales and 8 offsets of a block of Q4_K or Q5_K, each stored twice.
HT_DOT_INLINE void repeat_k_scales(Block block, std::int16_t* into) {
#if HWY_TARGET == HWY_AVX3
  const __m512i words = _mm512_cvtepu8_epi32(k_scale_bytes(block));
  const __m512i twice = _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
  _mm512_store_si512(into, twice);
#elif HT_DOT_AVX2
  const __m128i all = k_scale_bytes(block);
  const __m256i twice_scales = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(all, all));
  const __m256i twice_offsets = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(all, all));
  _mm256_store_si256(reinterpret_cast<__m256i*>(into), twice_scales);
  _mm256_store_si256(reinterpret_cast<__m256i*>(into + 16), twice_offsets);
#else
  std::uint8_t bytes[16];
  store_k_scale_bytes(block, bytes);
  for (std::size_t i = 0; i < 32; ++i) into[i] = bytes[i / 2];
#endif
}

template <std::size_t B>
HT_DOT_INLINE void prepare_k(Block block, std::size_t at, const IntVectors<B>& vectors, Prepared<B>& into) {
  repeat_k_scales(block, into.scales);
#if HT_DOT_AVX2
  const __m128 both = _mm_cvtph_ps(_mm_cvtsi32_si128(number_at<std::int32_t>(block)));
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b) {
    const __m128 factors = _mm_mul_ps(both, _mm_set1_ps(vectors.scales[b][at / 256]));
    _mm_storel_pi(reinterpret_cast<__m64*>(into.factors[b]), factors);
  }
#else
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (std::size_t b = 0; b < B; ++b) {
    into.factors[b][0] = d * vectors.scales[b][at / 256];
    into.factors[b][1] = dmin * vectors.scales[b][at / 256];
  }
#endif
}
template <std::size_t B>
HT_DOT_INLINE void prepare(Q4_K, Block block, std::size_t at, const IntVectors<B>& vectors,
                           Prepared<B>& into) {
  prepare_k(block, at, vectors, into);
}
template <std::size_t B>
HT_DOT_INLINE void prepare(Q5_K, Block block, std::size_t at, const IntVectors<B>& vectors,
                           Prepared<B>& into) {
  prepare_k(block, at, vectors, into);
}
template <std::size_t B>
HT_DOT_INLINE void prepare(Q6_K, Block block, std::size_t at, const IntVectors<B>& vectors,
                           Prepared<B>& into) {
  const std::int8_t* const scales = as_int8(block + 192);
#if HT_DOT_AVX2
  const hn::Full128<std::int8_t> tag;
  const hn::CappedTag<std::int16_t, 16> shorts;
  alignas(16) static constexpr std::int8_t even_first[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                             1, 3, 5, 7, 9, 11, 13, 15};
  const auto bytes = hn::LoadU(tag, scales);
  hn::StoreU(hn::PromoteTo(shorts, bytes), shorts, into.scales + 16);
  hn::StoreU(hn::PromoteTo(shorts, hn::TableLookupBytes(bytes, hn::Load(tag, even_first))), shorts,
             into.scales);
#else
  std::copy_n(scales, 16, into.scales + 16);
  for (std::size_t i = 0; i < 16; ++i) into.scales[i / 2 + 8 * (i % 2)] = into.scales[16 + i];
#endif
  const float d = half_at(block + 208);
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b) into.factors[b][0] = d * vectors.scales[b][at / 256];
}

template <std::size_t B>
HT_DOT_INLINE void add_sums(const Prepared<B>& prepared, const Ints<8>* sums, IntSink<B>& sink) {
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b)
    sink.products[b] =
        multiply_add(to_floats(sums[b]), set_floats<8>(prepared.factors[b][0]), sink.products[b]);
}

/// The contribution of the offsets of Q4_K and Q5_K: Σ offset · x.
template <std::size_t B>
HT_DOT_INLINE void add_offsets(std::size_t at, const Prepared<B>& prepared, const IntVectors<B>& vectors,
                               IntSink<B>& sink) {
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b) {
    const Ints<8> sums = dot_shorts(prepared.scales + 16, vectors.sums[b] + at / 16);
    sink.offsets[b] = multiply_add(to_floats(sums), set_floats<8>(prepared.factors[b][1]), sink.offsets[b]);
  }
}

template <std::size_t B>
HT_DOT_INLINE void clear(Ints<8>* sums) {
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b) sums[b] = set_ints<8>(0);
}

#if HWY_TARGET == HWY_AVX3
/// Σ a · b · scale for the groups 2 · `Pair` and 2 · `Pair` + 1 of a block: 64 elements in one register.
template <std::size_t Pair>
HT_DOT_INLINE __m512i dot_scaled_64(__m512i a, const std::int8_t* b, __m512i scales) {
  constexpr int first = static_cast<int>(2 * Pair);
  const __m512i groups = _mm512_inserti64x4(_mm512_set1_epi32(first), _mm256_set1_epi32(first + 1), 1);
  const __m512i pairs = _mm512_maddubs_epi16(a, _mm512_loadu_si512(b));
  return _mm512_madd_epi16(pairs, _mm512_permutexvar_epi32(groups, scales));
}

/// The sums of a block with one vector. `elements_of(pair)` returns 64 elements.
template <class Elements>
HT_DOT_INLINE Ints<8> dot_block_64(const std::int16_t* scale_pairs, const std::int8_t* x,
                                   Elements elements_of) {
  const __m512i scales =
      _mm512_castsi256_si512(_mm256_load_si256(reinterpret_cast<const __m256i*>(scale_pairs)));
  const __m512i first = _mm512_add_epi32(dot_scaled_64<0>(elements_of(0), x, scales),
                                         dot_scaled_64<1>(elements_of(1), x + 64, scales));
  const __m512i second = _mm512_add_epi32(dot_scaled_64<2>(elements_of(2), x + 128, scales),
                                          dot_scaled_64<3>(elements_of(3), x + 192, scales));
  const __m512i all = _mm512_add_epi32(first, second);
  Ints<8> result;
  result.part[0].raw = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
  return result;
}

/// 64 nibbles: the low nibbles of 32 bytes are one group, the high nibbles are the next one.
HT_DOT_INLINE __m512i nibbles_64(Block bytes) {
  const __m512i shifts = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(4), 1);
  const __m512i both = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
  return _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(15));
}

template <std::size_t B>
HT_DOT_INLINE void add_products(Q4_K, Block block, std::size_t at, const Prepared<B>& prepared,
                                const IntVectors<B>& vectors, IntSink<B>& sink) {
  const auto elements_of = [&](std::size_t pair) HWY_ATTR { return nibbles_64(block + 16 + 32 * pair); };
  Ints<8> sums[B];
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b) sums[b] = dot_block_64(prepared.scales, vectors.x[b] + at, elements_of);
  add_sums(prepared, sums, sink);
  add_offsets(at, prepared, vectors, sink);
}

template <std::size_t B>
HT_DOT_INLINE void add_products(Q5_K, Block block, std::size_t at, const Prepared<B>& prepared,
                                const IntVectors<B>& vectors, IntSink<B>& sink) {
  const __m512i fifth_bits =
      _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 16)));
  const auto elements_of = [&](std::size_t pair) HWY_ATTR {
    const __m256i bit = _mm256_set1_epi8(static_cast<char>(1U << (2 * pair)));
    const __m512i bits = _mm512_inserti64x4(_mm512_castsi256_si512(bit), _mm256_add_epi8(bit, bit), 1);
    const __m512i four = nibbles_64(block + 48 + 32 * pair);
    return _mm512_mask_add_epi8(four, _mm512_test_epi8_mask(fifth_bits, bits), four, _mm512_set1_epi8(16));
  };
  Ints<8> sums[B];
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b) sums[b] = dot_block_64(prepared.scales, vectors.x[b] + at, elements_of);
  add_sums(prepared, sums, sink);
  add_offsets(at, prepared, vectors, sink);
}

#else

template <std::size_t B>
HT_DOT_INLINE void add_products(Q4_K, Block block, std::size_t at, const Prepared<B>& prepared,
                                const IntVectors<B>& vectors, IntSink<B>& sink) {
  Ints<8> sums[B];
  clear<B>(sums);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 8; i += 2) {
    const Bytes32 both = load_32(block + 16 + 16 * i);
    const Bytes32 low = low_nibbles(both);
    const Bytes32 high = high_nibbles(both);
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b) {
      const std::int8_t* const x = vectors.x[b] + at + 32 * i;
      sums[b] = sums[b] + dot_scaled(low, x, prepared.scales, i);
      sums[b] = sums[b] + dot_scaled(high, x + 32, prepared.scales, i + 1);
    }
  }
  add_sums(prepared, sums, sink);
  add_offsets(at, prepared, vectors, sink);
}

template <std::size_t B>
HT_DOT_INLINE void add_products(Q5_K, Block block, std::size_t at, const Prepared<B>& prepared,
                                const IntVectors<B>& vectors, IntSink<B>& sink) {
  alignas(32) std::int8_t elements[256];
  q5_k_elements(block, elements);
  Ints<8> sums[B];
  clear<B>(sums);
  for (std::size_t i = 0; i < 8; ++i) {
    const Bytes32 group = load_32(reinterpret_cast<Block>(elements) + 32 * i);
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b)
      sums[b] = sums[b] + dot_scaled(group, vectors.x[b] + at + 32 * i, prepared.scales, i);
  }
  add_sums(prepared, sums, sink);
  add_offsets(at, prepared, vectors, sink);
}

#endif

/// Shifts to the left, or to the right if `Left` is negative. Shifts 16-bit lanes, because x86 has no byte
/// shift. The caller masks bits from the neighbouring byte.
template <int Left>
HT_DOT_INLINE hn::Vec<Bytes32Tag> shift(hn::Vec<Bytes32Tag> bytes) {
#if HWY_TARGET == HWY_SCALAR
  return Left < 0 ? hn::ShiftRight<(Left < 0 ? -Left : 0)>(bytes)
                  : hn::ShiftLeft<(Left < 0 ? 0 : Left)>(bytes);
#else
  const hn::Repartition<std::uint16_t, Bytes32Tag> words;
  const auto both = hn::BitCast(words, bytes);
  if constexpr (Left < 0) return hn::BitCast(Bytes32Tag(), hn::ShiftRight<-Left>(both));
  return hn::BitCast(Bytes32Tag(), hn::ShiftLeft<(Left < 0 ? 0 : Left)>(both));
#endif
}

/// 32 elements of Q6_K: 4 bits of `low` starting at bit `Low`, and above them 2 bits of `high` starting at
/// bit `High`.
template <int Low, int High>
HT_DOT_INLINE Bytes32 q6_k_bytes(Bytes32 low, Bytes32 high) {
  Bytes32 result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto four = hn::And(shift<-Low>(low.part[i]), hn::Set(Bytes32Tag(), std::uint8_t{15}));
    const auto two = hn::And(shift<4 - High>(high.part[i]), hn::Set(Bytes32Tag(), std::uint8_t{0x30}));
    result.part[i] = hn::Or(four, two);
  }
  return result;
}

/// Elements are scale · (q - 32), so 32 · Σ scale · (sum of 16 elements of x) is subtracted once per block.
template <std::size_t B>
HT_DOT_INLINE void add_products(Q6_K, Block block, std::size_t at, const Prepared<B>& prepared,
                                const IntVectors<B>& vectors, IntSink<B>& sink) {
  Ints<8> sums[B];
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b)
    sums[b] = set_ints<8>(0) - shift_left<5>(dot_shorts(prepared.scales + 16, vectors.sums[b] + at / 16));
#pragma GCC unroll 2
  for (std::size_t half = 0; half < 2; ++half) {
    const Bytes32 first = load_32(block + 64 * half);
    const Bytes32 second = load_32(block + 64 * half + 32);
    const Bytes32 high = load_32(block + 128 + 32 * half);
    const Bytes32 elements[4] = {q6_k_bytes<0, 0>(first, high), q6_k_bytes<0, 2>(second, high),
                                 q6_k_bytes<4, 4>(first, high), q6_k_bytes<4, 6>(second, high)};
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t group = 4 * half + i;
#pragma GCC unroll 4
      for (std::size_t b = 0; b < B; ++b)
        sums[b] =
            sums[b] + dot_two_scales(elements[i], vectors.x[b] + at + 32 * group, prepared.scales, group);
    }
  }
  add_sums(prepared, sums, sink);
}

/// Number of blocks whose scales are prepared together.
constexpr std::size_t max_prepared = 4;

/// Multiplies R rows with B vectors: into[r * B + b].
template <class E, std::size_t R, std::size_t B>
HT_DOT_INLINE void int_dot(const Block* rows, const IntVectors<B>& vectors, std::size_t columns,
                           float* into) {
  IntSink<B> sinks[R];
#pragma GCC unroll 4
  for (auto& sink : sinks) {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b) sink.products[b] = sink.offsets[b] = set_floats<8>(0.F);
  }
  std::size_t offset = 0;
  const RowPrefetch<R> ahead(rows, columns / E::block_elements * E::block_bytes);
  if constexpr (E::block_elements == 256) {
    for (std::size_t at = 0; at < columns;) {
      const std::size_t blocks = std::min(max_prepared, (columns - at) / E::block_elements);
      Prepared<B> prepared[max_prepared][R];
      for (std::size_t i = 0; i < blocks; ++i) {
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r) {
          const Block block = rows[r] + offset + E::block_bytes * i;
          prepare(E{}, block, at + E::block_elements * i, vectors, prepared[i][r]);
        }
      }
      reload(prepared);
      for (std::size_t i = 0; i < blocks; ++i) {
        ahead.template step<E::block_bytes>(rows, offset);
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r)
          add_products(E{}, rows[r] + offset, at, prepared[i][r], vectors, sinks[r]);
        at += E::block_elements;
        offset += E::block_bytes;
      }
    }
  } else {
    for (std::size_t at = 0; at < columns; at += E::block_elements) {
      ahead.template step<E::block_bytes>(rows, offset);
#pragma GCC unroll 4
      for (std::size_t r = 0; r < R; ++r) add_products(E{}, rows[r] + offset, at, vectors, sinks[r]);
      offset += E::block_bytes;
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b)
      into[r * B + b] = sum_of_lanes(sinks[r].products[b] - sinks[r].offsets[b]);
  }
}

using IntDots = void (*)(const WeightRows& rows, const Int8Vectors& x, std::int64_t first, std::int64_t count,
                         float* into, std::int64_t into_stride);

/// Multiplies all rows, R at a time, with `count` vectors, at most B, starting at `first`.
template <class E, std::size_t R, std::size_t B>
void int_dots(const WeightRows& rows, const Int8Vectors& x, std::int64_t first, std::int64_t count,
              float* into, std::int64_t into_stride) {
  IntVectors<B> vectors;
  for (std::size_t b = 0; b < B; ++b) {
    // If there are fewer than B vectors, the last one is repeated.
    const std::int64_t number = first + std::min(static_cast<std::int64_t>(b), count - 1);
    vectors.x[b] = x.elements.data() + number * x.columns;
    vectors.scales[b] = x.scales.data() + number * (x.columns / x.block_elements);
    vectors.sums[b] = x.sums.data() + number * (x.columns / 16);
  }
  const auto columns = static_cast<std::size_t>(x.columns);
  for (std::int64_t row = 0; row < rows.count; row += std::int64_t{R}) {
    // If fewer than R rows are left, the last one is repeated.
    std::int64_t numbers[R];
    Block pointers[R];
    for (std::size_t r = 0; r < R; ++r) {
      numbers[r] = std::min(row + static_cast<std::int64_t>(r), rows.count - 1);
      pointers[r] = reinterpret_cast<Block>(rows.first + numbers[r] * rows.row_bytes);
    }
    float results[R * B];
    int_dot<E, R, B>(pointers, vectors, columns, results);
    for (std::size_t r = 0; r < R; ++r) {
      for (std::int64_t b = 0; b < count; ++b)
        into[(first + b) * into_stride + numbers[r]] = results[r * B + static_cast<std::size_t>(b)];
    }
  }
}

/// Except for Q4_0, one row saturates the processor, and prefetchers work best with one row.
template <class E>
constexpr std::size_t rows_at_once = std::is_same_v<E, Q4_0> ? 2 : 1;

/// The kernels of E for 1, 2 and 4 vectors.
template <class E>
constexpr IntDots int_dots_of[3] = {&int_dots<E, rows_at_once<E>, 1>, &int_dots<E, 1, 2>, &int_dots<E, 1, 4>};

const IntDots* find_int_dots(EncodingTag tag) {
  if (tag == Q8_0::tag) return int_dots_of<Q8_0>;
  if (tag == Q4_0::tag) return int_dots_of<Q4_0>;
  if (tag == Q4_K::tag) return int_dots_of<Q4_K>;
  if (tag == Q5_K::tag) return int_dots_of<Q5_K>;
  if (tag == Q6_K::tag) return int_dots_of<Q6_K>;
  return nullptr;
}

void int_dot_all(const WeightRows& rows, const Int8Vectors& x, float* into,
                 std::int64_t into_stride) noexcept {
  const IntDots* const dots = find_int_dots(rows.type.encoding);
  if (dots == nullptr) return;
  // With many vectors, process few rows at a time, which stay in the cache.
  const std::int64_t at_once = x.batch <= static_cast<std::int64_t>(max_batch) ? rows.count : 8;
  for (std::int64_t row = 0; row < rows.count; row += at_once) {
    WeightRows panel_rows = rows;
    panel_rows.first = rows.first + row * rows.row_bytes;
    panel_rows.count = std::min(at_once, rows.count - row);
    for (std::int64_t b = 0; b < x.batch;) {
      const std::int64_t tile = std::min<std::int64_t>(x.batch - b, max_batch);
      dots[tile == 1 ? 0 : tile == 2 ? 1 : 2](panel_rows, x, b, tile, into + row, into_stride);
      b += tile;
    }
  }
}

/// Rounds `count` elements of x to int8 with one common scale, to nearest, ties to even. Returns the scale.
float round_block(const float* x, std::int64_t count, std::int8_t* into) {
  Floats<8> largest = set_floats<8>(0.F);
  Floats<8> check = set_floats<8>(0.F);
  const Floats<8> zero = set_floats<8>(0.F);
  for (std::int64_t i = 0; i < count; i += 8) {
    const Floats<8> numbers = load_floats<8>(x + i);
    largest = max_of(largest, abs_of(numbers));
    check = check + numbers * zero;  // NaN if an element is NaN or infinite
  }
  float maxima[8];
  store_floats(largest, maxima);
  const float maximum = *std::max_element(maxima, maxima + 8);
  const bool is_finite = sum_of_lanes(check) == 0.F;
  if (!is_finite || maximum == 0.F) {
    std::fill_n(into, count, std::int8_t{0});
    return is_finite ? 0.F : std::numeric_limits<float>::quiet_NaN();
  }
  // Rounded up, so that all elements are at most 127; this matters for subnormal scales.
  float scale = maximum / 127.F;
  if (scale * 127.F < maximum) scale = std::nextafter(scale, std::numeric_limits<float>::infinity());
  const Floats<8> divisor = set_floats<8>(scale);
  for (std::int64_t i = 0; i < count; i += 8) store_rounded(load_floats<8>(x + i) / divisor, into + i);
  return scale;
}

void round_all(const float* x, std::int64_t x_stride, Int8Vectors& into) {
  std::int8_t* elements = into.elements.data();
  float* scale = into.scales.data();
  for (std::int64_t b = 0; b < into.batch; ++b) {
    for (std::int64_t at = 0; at < into.columns; at += into.block_elements) {
      *scale++ = round_block(x + b * x_stride + at, into.block_elements, elements);
      elements += into.block_elements;
    }
  }
  for (std::size_t i = 0; i < into.sums.size(); ++i) {
    int sum = 0;
    for (std::size_t j = 0; j < 16; ++j) sum += into.elements[16 * i + j];
    into.sums[i] = static_cast<std::int16_t>(sum);
  }
}

}  // namespace
}  // namespace ht::inline v1::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace ht::inline v1::compute {

Int8Vectors::Int8Vectors(const ElementType& weights, const float* x, std::int64_t x_stride,
                         std::int64_t vectors, std::int64_t length)
    : block_elements(weights.block_elements),
      batch(vectors),
      columns(length),
      elements(static_cast<std::size_t>(vectors * length)),
      scales(static_cast<std::size_t>(vectors * (length / block_elements))),
      sums(elements.size() / 16) {
  HT_CHOOSE_TARGET(round_all)(x, x_stride, *this);
}

bool has_int8_kernel(const ElementType& type) noexcept {
  return type.is_block_encoded() && HWY_NAMESPACE::find_int_dots(type.encoding) != nullptr;
}

void dot_rows_int8(const WeightRows& rows, const Int8Vectors& x, float* into,
                   std::int64_t into_stride) noexcept {
  HT_CHOOSE_TARGET(int_dot_all)(rows, x, into, into_stride);
}

}  // namespace ht::inline v1::compute

#endif
