// The kernels for vectors of int8: products of bytes, added in fours.
//
// Lane i of 8 has the sum of the elements 4i to 4i + 3 of a group of 32, an exact integer. It is converted to
// F32 and multiplied by the scales of both sides.
#include "compute/dot_rows.hpp"

#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

#include <algorithm>
#include <cmath>
#include <htensor/dtype/encodings.hpp>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compute/dot_rows_int8.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "compute/dot_vectors.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::compute::HWY_NAMESPACE {
namespace {

constexpr std::size_t max_batch = 4;

using Bytes32Tag = hn::CappedTag<std::uint8_t, 32>;
using Signed32Tag = hn::RebindToSigned<Bytes32Tag>;

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
/// The low nibbles of 16 bytes, and the high ones behind them.
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
#if HWY_TARGET == HWY_AVX2
  result.part[0] = hn::Combine(Bytes32Tag(), high, low);
#else
  result.part[0] = low;
  result.part[1] = high;
#endif
#endif
  return result;
}

/// Products of pairs of bytes, as int16.
#if HWY_TARGET == HWY_AVX2
HT_DOT_INLINE __m256i multiply_pairs(__m256i unsigned_bytes, __m256i signed_bytes) {
  return _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
}
HT_DOT_INLINE __m256i add_pairs(__m256i a, __m256i b) { return _mm256_madd_epi16(a, b); }
HT_DOT_INLINE __m256i with_sign_of(__m256i a, __m256i b) { return _mm256_sign_epi8(a, b); }
HT_DOT_INLINE __m256i subtract_shorts(__m256i a, __m256i b) { return _mm256_sub_epi16(a, b); }
#define HT_DOT_HAS_PAIRS 1
#elif HWY_TARGET == HWY_SSE4
HT_DOT_INLINE __m128i multiply_pairs(__m128i unsigned_bytes, __m128i signed_bytes) {
  return _mm_maddubs_epi16(unsigned_bytes, signed_bytes);
}
HT_DOT_INLINE __m128i add_pairs(__m128i a, __m128i b) { return _mm_madd_epi16(a, b); }
HT_DOT_INLINE __m128i with_sign_of(__m128i a, __m128i b) { return _mm_sign_epi8(a, b); }
HT_DOT_INLINE __m128i subtract_shorts(__m128i a, __m128i b) { return _mm_sub_epi16(a, b); }
#define HT_DOT_HAS_PAIRS 1
#else
#define HT_DOT_HAS_PAIRS 0
#endif

#if HT_DOT_HAS_PAIRS

using ShortTag = hn::Repartition<std::int16_t, Bytes32Tag>;

/// Σ a · b of bytes without sign, at most 64, and int8.
HT_DOT_INLINE Ints dot_unsigned(Bytes32 a, const std::int8_t* b) {
  const auto ones = hn::Set(ShortTag(), std::int16_t{1});
  Ints result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto x = hn::LoadU(Signed32Tag(), b + byte_lanes * i);
    result.part[i].raw = add_pairs(multiply_pairs(a.part[i].raw, x.raw), ones.raw);
  }
  return result;
}

/// The same for int8 and int8 above -128.
HT_DOT_INLINE Ints dot_signed(Bytes32 a, const std::int8_t* b) {
  const auto ones = hn::Set(ShortTag(), std::int16_t{1});
  Ints result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto x = hn::LoadU(Signed32Tag(), b + byte_lanes * i);
    // The magnitude of -128 is 128, without a sign; a pair of products fits 16 bits.
    const auto magnitude = hn::Abs(hn::BitCast(Signed32Tag(), a.part[i]));
    const auto moved = with_sign_of(x.raw, a.part[i].raw);
    result.part[i].raw = add_pairs(multiply_pairs(magnitude.raw, moved), ones.raw);
  }
  return result;
}

/// The 16 scales of a block of Q6_K.
struct SixScales {
  HT_DOT_INLINE explicit SixScales(Block scales)
      : bytes(hn::LoadU(hn::Full128<std::int8_t>(), as_int8(scales))) {}
  /// The scale of each of the 32 elements of a group, as int16.
  HT_DOT_INLINE void of_group(std::size_t group, hn::Vec<ShortTag>* into) const {
    const hn::Full128<std::int8_t> tag;
    const auto indexes = hn::Set(hn::Full128<std::uint16_t>(), static_cast<std::uint16_t>(group * 0x0202));
    const auto low_and_high = hn::Add(hn::BitCast(tag, indexes), hn::Load(tag, halves));
    const auto each = hn::TableLookupBytes(bytes, low_and_high);
#if HWY_TARGET == HWY_AVX2
    into[0] = hn::PromoteTo(ShortTag(), each);
#else
    into[0] = hn::PromoteTo(ShortTag(), hn::LowerHalf(each));
    into[1] = hn::PromoteTo(ShortTag(), hn::UpperHalf(hn::Half<hn::Full128<std::int8_t>>(), each));
#endif
  }
  alignas(16) static constexpr std::int8_t halves[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  hn::Vec<hn::Full128<std::int8_t>> bytes;
};

/// Σ (a - Zero) · b.
template <std::uint8_t Zero>
HT_DOT_INLINE Ints dot_centred(Bytes32 a, const std::int8_t* b) {
  const auto ones = hn::Set(ShortTag(), std::int16_t{1});
  const auto zero = hn::Set(Bytes32Tag(), Zero);
  Ints result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto x = hn::LoadU(Signed32Tag(), b + byte_lanes * i);
    const auto pairs = subtract_shorts(multiply_pairs(a.part[i].raw, x.raw), multiply_pairs(zero.raw, x.raw));
    result.part[i].raw = add_pairs(pairs, ones.raw);
  }
  return result;
}

/// Σ (a - 32) · b · scale.
HT_DOT_INLINE Ints dot_sixes(Bytes32 a, const std::int8_t* b, const SixScales& scales, std::size_t group) {
  const auto zero = hn::Set(Bytes32Tag(), std::uint8_t{32});
  hn::Vec<ShortTag> scale[byte_parts];
  scales.of_group(group, scale);
  Ints result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto x = hn::LoadU(Signed32Tag(), b + byte_lanes * i);
    const auto pairs = subtract_shorts(multiply_pairs(a.part[i].raw, x.raw), multiply_pairs(zero.raw, x.raw));
    result.part[i].raw = add_pairs(pairs, scale[i].raw);
  }
  return result;
}

#else

// Lane by lane: targets without an instruction for pairs of bytes.

/// `Element` is how the bytes of `a` are read.
template <class Element>
HT_DOT_INLINE Ints dot_each(Bytes32 a, const std::int8_t* b, int zero, int low_scale, int high_scale) {
  std::uint8_t bytes[32];
  for (std::size_t i = 0; i < byte_parts; ++i) hn::StoreU(a.part[i], Bytes32Tag(), bytes + byte_lanes * i);
  alignas(32) std::int32_t sums[8];
  for (std::size_t i = 0; i < 8; ++i) {
    sums[i] = 0;
    for (std::size_t j = 4 * i; j < 4 * i + 4; ++j)
      sums[i] += (static_cast<Element>(bytes[j]) - zero) * b[j] * (i < 4 ? low_scale : high_scale);
  }
  Ints result;
  for (std::size_t i = 0; i < parts; ++i) result.part[i] = hn::LoadU(IntTag(), sums + lanes * i);
  return result;
}

HT_DOT_INLINE Ints dot_unsigned(Bytes32 a, const std::int8_t* b) {
  return dot_each<std::uint8_t>(a, b, 0, 1, 1);
}
HT_DOT_INLINE Ints dot_signed(Bytes32 a, const std::int8_t* b) {
  return dot_each<std::int8_t>(a, b, 0, 1, 1);
}

template <std::uint8_t Zero>
HT_DOT_INLINE Ints dot_centred(Bytes32 a, const std::int8_t* b) {
  return dot_each<std::uint8_t>(a, b, Zero, 1, 1);
}

struct SixScales {
  HT_DOT_INLINE explicit SixScales(Block scales) : bytes(as_int8(scales)) {}
  const std::int8_t* bytes;
};

HT_DOT_INLINE Ints dot_sixes(Bytes32 a, const std::int8_t* b, const SixScales& scales, std::size_t group) {
  return dot_each<std::uint8_t>(a, b, 32, scales.bytes[2 * group], scales.bytes[2 * group + 1]);
}

#endif
#undef HT_DOT_HAS_PAIRS

/// Vectors and where their sums go.
template <std::size_t B>
struct IntSink {
  const std::int8_t* x[B];
  const float* scales[B];
  const float* sums[B];
  /// Two sums, to which groups are added in turn: additions do not wait for each other.
  Floats products[B][2];
  Floats offsets[B];

  /// Adds the products of 32 elements, from element `at` of the row on, times `scale` of their row.
  /// `dot(x)` gives the products with a vector.
  template <class Dot>
  HT_DOT_INLINE void add(std::size_t at, Floats scale, Dot dot) {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b) {
      const Floats both = scale * set_floats(scales[b][at / 32]);
      products[b][0] = multiply_add(to_floats(dot(x[b] + at)), both, products[b][0]);
    }
  }
};

template <std::size_t B>
HT_DOT_INLINE void unpack(Q8_0, Block b, std::size_t at, IntSink<B>& sink) {
  const Bytes32 elements = load_32(b + 2);
  sink.add(at, set_half(b), [&](const std::int8_t* x) HWY_ATTR { return dot_signed(elements, x); });
}

template <std::size_t B>
HT_DOT_INLINE void unpack(Q4_0, Block b, std::size_t at, IntSink<B>& sink) {
  const Bytes32 elements = nibbles_of_16(b + 2);
  sink.add(at, set_half(b), [&](const std::int8_t* x) HWY_ATTR { return dot_centred<8>(elements, x); });
}

/// The scales of the 8 groups of a block times those of each vector.
template <std::size_t B>
struct GroupScales {
  alignas(32) float both[B][8];
};
/// Scales of encodings that take long to unpack. They are prepared for several blocks before the first of
/// these is multiplied, so that multiplications do not wait for them. Adds the part of the offsets.
template <std::size_t B>
HT_DOT_INLINE void prepare_k(Block b, std::size_t at, IntSink<B>& sink, GroupScales<B>& into) {
  alignas(32) float scales[8];
  alignas(32) float offsets[8];
  k_scales(b, scales, offsets);
  const Floats scale = load_floats(scales);
  const Floats offset = load_floats(offsets);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < B; ++i) {
    store_floats(scale * load_floats(sink.scales[i] + at / 32), into.both[i]);
    sink.offsets[i] = multiply_add(offset, load_floats(sink.sums[i] + at / 32), sink.offsets[i]);
  }
}
template <std::size_t B>
HT_DOT_INLINE void prepare(Q4_K, Block b, std::size_t at, IntSink<B>& sink, GroupScales<B>& into) {
  prepare_k(b, at, sink, into);
}
template <std::size_t B>
HT_DOT_INLINE void prepare(Q5_K, Block b, std::size_t at, IntSink<B>& sink, GroupScales<B>& into) {
  prepare_k(b, at, sink, into);
}
template <std::size_t B>
HT_DOT_INLINE void prepare(Q6_K, Block b, std::size_t at, IntSink<B>& sink, GroupScales<B>& into) {
  const Floats d = set_half(b + 208);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < B; ++i) store_floats(d * load_floats(sink.scales[i] + at / 32), into.both[i]);
}

/// Adds the products of group `group` of a block that begins with element `at`.
template <std::size_t B, class Dot>
HT_DOT_INLINE void add_group(const GroupScales<B>& scales, std::size_t at, std::size_t group,
                             IntSink<B>& sink, Dot dot) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < B; ++i) {
    const Ints sum = dot(sink.x[i] + at + 32 * group);
    Floats& product = sink.products[i][group % 2];
    product = multiply_add(to_floats(sum), set_floats(scales.both[i][group]), product);
  }
}

template <std::size_t B>
HT_DOT_INLINE void unpack(Q4_K, Block b, std::size_t at, const GroupScales<B>& scales, IntSink<B>& sink) {
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 8; i += 2) {
    const Bytes32 both = load_32(b + 16 + 16 * i);
    const Bytes32 low = low_nibbles(both);
    const Bytes32 high = high_nibbles(both);
    add_group(scales, at, i, sink, [&](const std::int8_t* x) HWY_ATTR { return dot_unsigned(low, x); });
    add_group(scales, at, i + 1, sink, [&](const std::int8_t* x) HWY_ATTR { return dot_unsigned(high, x); });
  }
}

template <std::size_t B>
HT_DOT_INLINE void unpack(Q5_K, Block b, std::size_t at, const GroupScales<B>& scales, IntSink<B>& sink) {
  alignas(32) std::int8_t elements[256];
  q5_k_elements(b, elements);
  for (std::size_t i = 0; i < 8; ++i) {
    const Bytes32 group = load_32(reinterpret_cast<Block>(elements) + 32 * i);
    add_group(scales, at, i, sink, [&](const std::int8_t* x) HWY_ATTR { return dot_unsigned(group, x); });
  }
}

/// Shifts lanes of 16 bits, because x86 has no shift of bytes. The caller masks bits that came from the
/// neighbouring byte.
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

/// 32 elements of Q6_K: 4 bits of `low` from bit `Low` on, and 2 bits of `high` from bit `High` on above
/// them.
template <int Low, int High>
HT_DOT_INLINE Bytes32 sixes(Bytes32 low, Bytes32 high) {
  Bytes32 result;
  for (std::size_t i = 0; i < byte_parts; ++i) {
    const auto four = hn::And(shift<-Low>(low.part[i]), hn::Set(Bytes32Tag(), std::uint8_t{15}));
    const auto two = hn::And(shift<4 - High>(high.part[i]), hn::Set(Bytes32Tag(), std::uint8_t{0x30}));
    result.part[i] = hn::Or(four, two);
  }
  return result;
}

// An element of 6 bits times one of a vector and a scale, added 4 times, fits 32 bits.
template <std::size_t B>
HT_DOT_INLINE void unpack(Q6_K, Block b, std::size_t at, const GroupScales<B>& scales, IntSink<B>& sink) {
  const SixScales of_sixteen(b + 192);
#pragma GCC unroll 2
  for (std::size_t half = 0; half < 2; ++half) {
    const Bytes32 first = load_32(b + 64 * half);
    const Bytes32 second = load_32(b + 64 * half + 32);
    const Bytes32 high = load_32(b + 128 + 32 * half);
    const Bytes32 elements[4] = {sixes<0, 0>(first, high), sixes<0, 2>(second, high),
                                 sixes<4, 4>(first, high), sixes<4, 6>(second, high)};
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      add_group(scales, at, 4 * half + i, sink, [&](const std::int8_t* x) HWY_ATTR {
        return dot_sixes(elements[i], x, of_sixteen, 4 * half + i);
      });
    }
  }
}

template <class E>
constexpr bool is_prepared = E::block_elements == 256;
/// Blocks whose scales are prepared at once.
constexpr std::size_t max_prepared = 8;

using IntDot = void (*)(const Block* rows, const Int8Vectors& x, const std::size_t* vectors, float* into);

/// R rows with B vectors, whose numbers are in `vectors`.
template <class E, std::size_t R, std::size_t B>
void int_dot(const Block* rows, const Int8Vectors& x, const std::size_t* vectors, float* into) {
  const auto columns = static_cast<std::size_t>(x.columns);
  IntSink<B> sinks[R];
#pragma GCC unroll 4
  for (std::size_t b = 0; b < B; ++b) {
#pragma GCC unroll 4
    for (auto& sink : sinks) {
      sink.x[b] = x.elements.data() + vectors[b] * columns;
      sink.scales[b] = x.scales.data() + vectors[b] * (columns / 32);
      sink.sums[b] = x.sums.data() + vectors[b] * (columns / 32);
      sink.products[b][0] = set_floats(0.F);
      sink.products[b][1] = set_floats(0.F);
      sink.offsets[b] = set_floats(0.F);
    }
  }
  std::size_t offset = 0;
  if constexpr (is_prepared<E>) {
    for (std::size_t at = 0; at < columns;) {
      const std::size_t blocks = std::min(max_prepared, (columns - at) / E::block_elements);
      GroupScales<B> prepared[max_prepared][R];
      for (std::size_t i = 0; i < blocks; ++i) {
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r) {
          const Block block = rows[r] + offset + E::block_bytes * i;
          prepare(E{}, block, at + E::block_elements * i, sinks[r], prepared[i][r]);
        }
      }
      reload(prepared);
      for (std::size_t i = 0; i < blocks; ++i) {
#pragma GCC unroll 4
        for (std::size_t r = 0; r < R; ++r) {
          prefetch_step<E::block_bytes, B>(rows[r] + offset);
          unpack(E{}, rows[r] + offset, at, prepared[i][r], sinks[r]);
        }
        at += E::block_elements;
        offset += E::block_bytes;
      }
    }
  } else {
    for (std::size_t at = 0; at < columns; at += E::block_elements) {
#pragma GCC unroll 4
      for (std::size_t r = 0; r < R; ++r) {
        prefetch_step<E::block_bytes, B>(rows[r] + offset);
        unpack(E{}, rows[r] + offset, at, sinks[r]);
      }
      offset += E::block_bytes;
    }
  }
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t b = 0; b < B; ++b)
      into[r * B + b] =
          sum_of_lanes((sinks[r].products[b][0] + sinks[r].products[b][1]) - sinks[r].offsets[b]);
  }
}

/// Two rows with one vector, one row with two and with four.
struct IntDots {
  IntDot rows_2;
  IntDot batch_2;
  IntDot batch_4;
};

template <class E>
constexpr IntDots int_dots_of = {&int_dot<E, 2, 1>, &int_dot<E, 1, 2>, &int_dot<E, 1, 4>};

const IntDots* find_int_dots(EncodingTag tag) {
  if (tag == Q8_0::tag) return &int_dots_of<Q8_0>;
  if (tag == Q4_0::tag) return &int_dots_of<Q4_0>;
  if (tag == Q4_K::tag) return &int_dots_of<Q4_K>;
  if (tag == Q5_K::tag) return &int_dots_of<Q5_K>;
  if (tag == Q6_K::tag) return &int_dots_of<Q6_K>;
  return nullptr;
}

void int_dot_all(const Rows& rows, const Int8Vectors& x, float* into, std::int64_t into_stride) noexcept {
  const IntDots* const dots = find_int_dots(rows.type.encoding);
  if (dots == nullptr) return;
  const auto row_at = [&](std::int64_t row)
                          HWY_ATTR { return reinterpret_cast<Block>(rows.first + row * rows.row_bytes); };
  float results[max_batch];
  for (std::int64_t r = 0; r < rows.count; r += 2) {
    const std::int64_t next = std::min(r + 1, rows.count - 1);
    const Block pair[2] = {row_at(r), row_at(next)};
    for (std::int64_t b = 0; b < x.batch;) {
      const std::int64_t tile = std::min<std::int64_t>(x.batch - b, max_batch);
      std::size_t vectors[max_batch];
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(max_batch); ++i)
        vectors[i] = static_cast<std::size_t>(b + std::min(i, tile - 1));
      float* const tile_into = into + b * into_stride;
      if (tile == 1) {
        dots->rows_2(pair, x, vectors, results);
        tile_into[r] = results[0];
        tile_into[next] = results[1];
      } else {
        const IntDot dot_batch = tile == 2 ? dots->batch_2 : dots->batch_4;
        for (std::int64_t row = r; row <= next; ++row) {
          dot_batch(&pair[row - r], x, vectors, results);
          for (std::int64_t i = 0; i < tile; ++i) tile_into[i * into_stride + row] = results[i];
        }
      }
      b += tile;
    }
  }
}

}  // namespace
}  // namespace ht::inline v1::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace ht::inline v1::compute {
namespace {

struct Group {
  float scale = 0.F;
  int sum = 0;
};

// Rounds 32 elements to nearest, ties to even.
Group round_group(const float* x, std::int8_t* into) noexcept {
  // Adding this moves the digits behind the point out of the float; what is left are the digits before it.
  constexpr float magic = 12582912.F;
  float largest = 0.F;
  float check = 0.F;
  for (std::int64_t i = 0; i < Int8Vectors::group; ++i) {
    largest = std::max(largest, std::fabs(x[i]));
    check += x[i] * 0.F;  // NaN where an element is NaN or infinite
  }
  Group group;
  if (std::isnan(check)) group.scale = std::numeric_limits<float>::quiet_NaN();
  if (std::isnan(check) || largest == 0.F) {
    std::fill_n(into, Int8Vectors::group, std::int8_t{0});
    return group;
  }
  // Rounded up, which matters where the scale is subnormal: no element is above 127.
  group.scale = largest / 127.F;
  if (group.scale * 127.F < largest)
    group.scale = std::nextafter(group.scale, std::numeric_limits<float>::infinity());
  for (std::int64_t i = 0; i < Int8Vectors::group; ++i) {
    const float moved = std::clamp(x[i] / group.scale, -127.F, 127.F) + magic;
    const int rounded =
        static_cast<int>(std::bit_cast<std::uint32_t>(moved) - std::bit_cast<std::uint32_t>(magic));
    into[i] = static_cast<std::int8_t>(rounded);
    group.sum += rounded;
  }
  return group;
}

}  // namespace

Int8Vectors::Int8Vectors(const float* x, std::int64_t x_stride, std::int64_t vectors, std::int64_t length)
    : batch(vectors),
      columns(length),
      elements(static_cast<std::size_t>(vectors * length)),
      scales(static_cast<std::size_t>(vectors * (length / group))),
      sums(scales.size()) {
  std::size_t next = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t at = 0; at < columns; at += group, ++next) {
      const Group rounded =
          round_group(x + b * x_stride + at, elements.data() + static_cast<std::size_t>(b * columns + at));
      scales[next] = rounded.scale;
      sums[next] = rounded.scale * static_cast<float>(rounded.sum);
    }
  }
}

bool has_int8_kernel(const ElementType& type) noexcept {
  return type.is_blocks() && HWY_NAMESPACE::find_int_dots(type.encoding) != nullptr;
}

void dot_rows_int8(const Rows& rows, const Int8Vectors& x, float* into, std::int64_t into_stride) noexcept {
  HT_CHOOSE_TARGET(int_dot_all)(rows, x, into, into_stride);
}

}  // namespace ht::inline v1::compute

#endif
