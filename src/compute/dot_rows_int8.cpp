// The kernels for vectors of int8: products of integers, added in pairs.
//
// Elements of 32 become int16, as those of the vectors are: a product of two fits 15 bits, and 32 bits hold
// the sum of a group. A sum of 8 lanes is converted to F32 and multiplied by the scales of both sides.
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

using ShortTag = hn::CappedTag<std::int16_t, 16>;

constexpr std::size_t short_lanes = hn::MaxLanes(ShortTag());
constexpr std::size_t short_parts = 16 / short_lanes;

/// 16 elements.
struct Shorts {
  hn::Vec<ShortTag> part[short_parts];
};

HT_DOT_INLINE Shorts set_shorts(std::int16_t value) {
  Shorts result;
  for (auto& part : result.part) part = hn::Set(ShortTag(), value);
  return result;
}
HT_DOT_INLINE Shorts load_shorts(const std::int16_t* from) {
  Shorts result;
  for (std::size_t i = 0; i < short_parts; ++i)
    result.part[i] = hn::LoadU(ShortTag(), from + short_lanes * i);
  return result;
}
HT_DOT_INLINE Shorts widen_16(Block bytes) {
  const hn::Rebind<std::uint8_t, ShortTag> tag;
  Shorts result;
  for (std::size_t i = 0; i < short_parts; ++i)
    result.part[i] = hn::PromoteTo(ShortTag(), hn::LoadU(tag, bytes + short_lanes * i));
  return result;
}
HT_DOT_INLINE Shorts widen_16(const std::int8_t* bytes) {
  const hn::Rebind<std::int8_t, ShortTag> tag;
  Shorts result;
  for (std::size_t i = 0; i < short_parts; ++i)
    result.part[i] = hn::PromoteTo(ShortTag(), hn::LoadU(tag, bytes + short_lanes * i));
  return result;
}
HT_DOT_INLINE Shorts operator&(Shorts a, Shorts b) {
  for (std::size_t i = 0; i < short_parts; ++i) a.part[i] = hn::And(a.part[i], b.part[i]);
  return a;
}
HT_DOT_INLINE Shorts operator-(Shorts a, Shorts b) {
  for (std::size_t i = 0; i < short_parts; ++i) a.part[i] = hn::Sub(a.part[i], b.part[i]);
  return a;
}
HT_DOT_INLINE Shorts operator*(Shorts a, Shorts b) {
  for (std::size_t i = 0; i < short_parts; ++i) a.part[i] = hn::Mul(a.part[i], b.part[i]);
  return a;
}
HT_DOT_INLINE Shorts shift_right_4(Shorts a) {
  for (auto& part : a.part) part = hn::ShiftRight<4>(part);
  return a;
}

/// Lane i has the sum of the products of elements 2i and 2i + 1 of both.
HT_DOT_INLINE Ints dot_pairs(Shorts a0, Shorts b0, Shorts a1, Shorts b1) {
  Ints result;
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < parts; ++i) {
    int sum = 0;
    for (std::size_t j = 2 * i; j < 2 * i + 2; ++j) {
      sum += hn::GetLane(a0.part[j]) * hn::GetLane(b0.part[j]);
      sum += hn::GetLane(a1.part[j]) * hn::GetLane(b1.part[j]);
    }
    result.part[i] = hn::Set(IntTag(), sum);
  }
#else
  for (std::size_t i = 0; i < parts; ++i) {
    auto even = hn::Zero(IntTag());
    auto odd = hn::Zero(IntTag());
    even = hn::ReorderWidenMulAccumulate(IntTag(), a0.part[i], b0.part[i], even, odd);
    even = hn::ReorderWidenMulAccumulate(IntTag(), a1.part[i], b1.part[i], even, odd);
    result.part[i] = hn::RearrangeToOddPlusEven(even, odd);
  }
#endif
  return result;
}

/// Vectors and where their sums go.
template <std::size_t B>
struct IntSink {
  const std::int16_t* x[B];
  const float* scales[B];
  const float* sums[B];
  Floats products[B];
  Floats offsets[B];

  /// Adds 32 elements times `scale[0]`, from element `at` of the row on. `scale` has a number for each
  /// vector.
  HT_DOT_INLINE void add(std::size_t at, Shorts first, Shorts second, const Floats* scale) {
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b) {
      const Ints sum = dot_pairs(first, load_shorts(x[b] + at), second, load_shorts(x[b] + at + 16));
      products[b] = products[b] + to_floats(sum) * scale[b];
    }
  }
  /// The same; the scales of the vectors are multiplied by that of the 32 elements.
  HT_DOT_INLINE void add_scaled(std::size_t at, Shorts first, Shorts second, Floats scale) {
    Floats both[B];
#pragma GCC unroll 4
    for (std::size_t b = 0; b < B; ++b) both[b] = scale * set_floats(scales[b][at / 32]);
    add(at, first, second, both);
  }
};

template <std::size_t B>
HT_DOT_INLINE void unpack(Q8_0, Block b, std::size_t at, IntSink<B>& sink) {
  const std::int8_t* const elements = as_int8(b + 2);
  sink.add_scaled(at, widen_16(elements), widen_16(elements + 16), set_half(b));
}

template <std::size_t B>
HT_DOT_INLINE void unpack(Q4_0, Block b, std::size_t at, IntSink<B>& sink) {
  const Shorts both = widen_16(b + 2);
  const Shorts zero = set_shorts(8);
  sink.add_scaled(at, (both & set_shorts(15)) - zero, shift_right_4(both) - zero, set_half(b));
}

/// The scales of 8 groups of 32 with each vector; adds the part of their offsets.
template <std::size_t B>
struct KGroups {
  HT_DOT_INLINE KGroups(Block b, std::size_t at, IntSink<B>& sink) {
    alignas(32) float scales[8];
    alignas(32) float offsets[8];
    k_scales(b, scales, offsets);
    const Floats scale = load_floats(scales);
    const Floats offset = load_floats(offsets);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < B; ++i) {
      store_floats(scale * load_floats(sink.scales[i] + at / 32), both[i]);
      sink.offsets[i] = sink.offsets[i] + offset * load_floats(sink.sums[i] + at / 32);
    }
  }
  HT_DOT_INLINE void add(std::size_t at, std::size_t group, Shorts first, Shorts second,
                         IntSink<B>& sink) const {
    Floats scale[B];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < B; ++i) scale[i] = set_floats(both[i][group]);
    sink.add(at + 32 * group, first, second, scale);
  }
  alignas(32) float both[B][8];
};

template <std::size_t B>
HT_DOT_INLINE void unpack(Q4_K, Block b, std::size_t at, IntSink<B>& sink) {
  const KGroups<B> groups(b, at, sink);
  const Shorts mask = set_shorts(15);
  for (std::size_t i = 0; i < 8; i += 2) {
    const Shorts first = widen_16(b + 16 + 16 * i);
    const Shorts second = widen_16(b + 32 + 16 * i);
    groups.add(at, i, first & mask, second & mask, sink);
    groups.add(at, i + 1, shift_right_4(first), shift_right_4(second), sink);
  }
}

template <std::size_t B>
HT_DOT_INLINE void unpack(Q5_K, Block b, std::size_t at, IntSink<B>& sink) {
  const KGroups<B> groups(b, at, sink);
  alignas(32) std::int8_t elements[256];
  q5_k_elements(b, elements);
  for (std::size_t i = 0; i < 8; ++i)
    groups.add(at, i, widen_16(elements + 32 * i), widen_16(elements + 32 * i + 16), sink);
}

// An element of 6 bits times a scale of 8 fits 16 bits, times one of a vector and added 4 times 32.
template <std::size_t B>
HT_DOT_INLINE void unpack(Q6_K, Block b, std::size_t at, IntSink<B>& sink) {
  alignas(32) std::int8_t elements[256];
  q6_k_elements(b, b + 128, elements);
  q6_k_elements(b + 64, b + 160, elements + 128);
  const std::int8_t* const scales = as_int8(b + 192);
  const Floats d = set_half(b + 208);
  for (std::size_t i = 0; i < 8; ++i) {
    const Shorts first = widen_16(elements + 32 * i) * set_shorts(scales[2 * i]);
    const Shorts second = widen_16(elements + 32 * i + 16) * set_shorts(scales[2 * i + 1]);
    sink.add_scaled(at + 32 * i, first, second, d);
  }
}

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
      sink.products[b] = set_floats(0.F);
      sink.offsets[b] = set_floats(0.F);
    }
  }
  std::size_t offset = 0;
  for (std::size_t at = 0; at < columns; at += E::block_elements) {
#pragma GCC unroll 4
    for (std::size_t r = 0; r < R; ++r) unpack(E{}, rows[r] + offset, at, sinks[r]);
    offset += E::block_bytes;
  }
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t b = 0; b < B; ++b)
      into[r * B + b] = sum_of_lanes(sinks[r].products[b] - sinks[r].offsets[b]);
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
Group round_group(const float* x, std::int16_t* into) noexcept {
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
    std::fill_n(into, Int8Vectors::group, std::int16_t{0});
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
    into[i] = static_cast<std::int16_t>(rounded);
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
