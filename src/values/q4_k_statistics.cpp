#include "values/strip_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <htensor/dtype/encoding.hpp>

#include "base/memory_hints.hpp"
#include "values/blocks/decode_blocks.hpp"
#include "values/convert_kernels.hpp"
#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

#ifndef HT_Q4_K_STATISTICS_ONCE
#define HT_Q4_K_STATISTICS_ONCE

namespace ht::inline v1::values {
namespace {

/// A block has 8 scale groups: 32 elements that share a scale and an offset.
constexpr std::size_t scale_groups = 8;

/// Integer sums over the scale groups g of a block.
struct Integers {
  /// Σ scale[g] · Σq
  std::int32_t scaled;
  /// Σ scale[g]² · Σq²
  std::int32_t squares;
  /// Σ scale[g] · offset[g] · Σq
  std::int32_t cross;
  /// Σ offset[g]
  std::int32_t offsets;
  /// Σ offset[g]²
  std::int32_t offset_squares;
};

[[nodiscard]] inline const std::uint8_t* bytes_of(const std::uint64_t& word) {
  return reinterpret_cast<const std::uint8_t*>(&word);
}

}  // namespace
}  // namespace ht::inline v1::values

#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "values/q4_k_statistics.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "values/blocks/k_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::values::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using namespace k_blocks::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

[[nodiscard]] inline std::int32_t byte_of(std::uint64_t word, std::size_t i) {
  return static_cast<std::int32_t>((word >> (8 * i)) & 255);
}

Integers add_integers(const std::uint8_t* block, const ScaleBytes& bytes) {
  Integers result{};
  for (std::size_t g = 0; g < scale_groups; ++g) {
    std::int32_t sum = 0;
    std::int32_t squares = 0;
    for (std::size_t i = 0; i < 32; ++i) {
      const std::int32_t q = (block[16 + 32 * (g / 2) + i] >> (4 * (g % 2))) & 15;
      sum += q;
      squares += q * q;
    }
    const std::int32_t scale = byte_of(bytes.scales, g);
    const std::int32_t offset = byte_of(bytes.offsets, g);
    result.scaled += scale * sum;
    result.squares += scale * scale * squares;
    result.cross += scale * offset * sum;
    result.offsets += offset;
    result.offset_squares += offset * offset;
  }
  return result;
}

#else

using Shorts = hn::CappedTag<std::int16_t, 16>;
using Words = hn::RebindToUnsigned<Shorts>;

/// A sum of products of pairs; the order of lanes is unspecified.
template <class Tag>
struct PairSums {
  using Sums = hn::Repartition<std::int32_t, Tag>;

  hn::Vec<Sums> first;
  hn::Vec<Sums> second;

  HWY_INLINE PairSums() : first(hn::Zero(Sums())), second(hn::Zero(Sums())) {}
  HWY_INLINE void add(hn::Vec<Tag> a, hn::Vec<Tag> b) {
    first = hn::ReorderWidenMulAccumulate(Sums(), a, b, first, second);
  }
  HWY_INLINE std::int32_t total() const {
    return hn::GetLane(hn::SumOfLanes(Sums(), hn::Add(first, second)));
  }
};

/// The scales and offsets of the scale groups in memory. A load broadcasts a number to all lanes in one
/// instruction; a broadcast from a register takes three.
struct GroupShorts {
  alignas(16) std::int16_t scales[scale_groups];
  alignas(16) std::int16_t offsets[scale_groups];
};

HWY_INLINE Integers add_integers(const std::uint8_t* block, const ScaleBytes& bytes) {
  const Shorts shorts;
  const Words words;
  GroupShorts group_shorts;
  const hn::CappedTag<std::int16_t, scale_groups> group_tag;
  const hn::Rebind<std::uint8_t, decltype(group_tag)> byte_tag;
  PairSums<decltype(group_tag)> offsets;
  PairSums<decltype(group_tag)> offset_squares;
  for (std::size_t g = 0; g < scale_groups; g += hn::MaxLanes(group_tag)) {
    const auto scale = hn::PromoteTo(group_tag, hn::LoadU(byte_tag, bytes_of(bytes.scales) + g));
    const auto offset = hn::PromoteTo(group_tag, hn::LoadU(byte_tag, bytes_of(bytes.offsets) + g));
    offsets.add(offset, hn::Set(group_tag, std::int16_t{1}));
    offset_squares.add(offset, offset);
    hn::StoreU(scale, group_tag, group_shorts.scales + g);
    hn::StoreU(offset, group_tag, group_shorts.offsets + g);
  }
#if defined(__GNUC__)
  // Makes the compiler load these numbers from memory instead of forwarding its stores in registers.
  asm volatile("" : "+m"(group_shorts));
#endif

  PairSums<Shorts> squares;
  PairSums<Shorts> cross;
  // A lane is at most 32 · 15 · 63 with 8 lanes and half of that with 16, so it fits 16 bits.
  auto scaled = hn::Zero(shorts);
  const auto mask = hn::Set(words, std::uint16_t{15});
  for (std::size_t g = 0; g < scale_groups; g += 2) {
    const auto scale = hn::Set(shorts, group_shorts.scales[g]);
    const auto next_scale = hn::Set(shorts, group_shorts.scales[g + 1]);
    const auto offset = hn::Set(shorts, group_shorts.offsets[g]);
    const auto next_offset = hn::Set(shorts, group_shorts.offsets[g + 1]);
    for (std::size_t i = 0; i < 32; i += 2 * hn::MaxLanes(words)) {
      const auto nibbles =
          hn::BitCast(words, hn::LoadU(hn::Repartition<std::uint8_t, Words>(), block + 16 + 16 * g + i));
      const auto multiply = [&](auto elements, auto factor)
                                HWY_ATTR { return hn::Mul(hn::BitCast(shorts, elements), factor); };
      const auto a = multiply(hn::And(nibbles, mask), scale);
      const auto b = multiply(hn::And(hn::ShiftRight<8>(nibbles), mask), scale);
      const auto next_a = multiply(hn::And(hn::ShiftRight<4>(nibbles), mask), next_scale);
      const auto next_b = multiply(hn::ShiftRight<12>(nibbles), next_scale);
      squares.add(a, a);
      squares.add(b, b);
      squares.add(next_a, next_a);
      squares.add(next_b, next_b);
      const auto sum = hn::Add(a, b);
      const auto next_sum = hn::Add(next_a, next_b);
      cross.add(sum, offset);
      cross.add(next_sum, next_offset);
      scaled = hn::Add(scaled, hn::Add(sum, next_sum));
    }
  }
  PairSums<Shorts> scaled_sum;
  scaled_sum.add(scaled, hn::Set(shorts, std::int16_t{1}));
  return {.scaled = scaled_sum.total(),
          .squares = squares.total(),
          .cross = cross.total(),
          .offsets = offsets.total(),
          .offset_squares = offset_squares.total()};
}

#endif

/// True if an element of the block may be zero or outside of `range`.
HWY_INLINE bool may_have_zero_or_extreme(const ScaleBytes& bytes, float d, float dmin,
                                         const ValueRange& range) {
  const hn::CappedTag<float, scale_groups> floats;
  const hn::Rebind<std::int32_t, decltype(floats)> ints;
  const hn::Rebind<std::uint8_t, decltype(floats)> byte_tag;
  bool result = false;
  for (std::size_t g = 0; g < scale_groups; g += hn::MaxLanes(floats)) {
    const auto widen = [&](const std::uint64_t& from) HWY_ATTR {
      return hn::ConvertTo(floats, hn::PromoteTo(ints, hn::LoadU(byte_tag, bytes_of(from) + g)));
    };
    const auto zero = hn::Zero(floats);
    const auto scale = hn::Mul(widen(bytes.scales), hn::Set(floats, d));
    const auto offset = hn::Mul(widen(bytes.offsets), hn::Set(floats, dmin));
    const auto last = hn::Mul(scale, hn::Set(floats, 15.F));
    const auto high = hn::Sub(hn::Max(last, zero), offset);
    const auto low = hn::Sub(hn::Min(last, zero), offset);
    // An element may be zero if the offset is a multiple of the scale; the quotient is then exact.
    const auto q = hn::Round(hn::Div(offset, scale));
    const auto cancels = hn::Eq(hn::Mul(q, scale), offset);
    const auto is_zero = hn::And(hn::Eq(scale, zero), hn::Eq(offset, zero));
    const auto exceeds_range =
        hn::Or(hn::Gt(high, hn::Set(floats, range.max)), hn::Lt(low, hn::Set(floats, range.min)));
    result = result || !hn::AllFalse(floats, hn::Or(hn::Or(cancels, is_zero), exceeds_range));
  }
  return result;
}

/// Sums the integers of `count` blocks. Sets `by_element[i]` if block i must be summarized element by
/// element.
void add_blocks(const std::uint8_t* blocks, std::int64_t count, const float* scales, const ValueRange& range,
                Integers* integers, bool* by_element) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t* const block = blocks + i * Q4_K::block_bytes;
    for (std::int64_t line = 0; line < Q4_K::block_bytes; line += 64) prefetch(block + line);
    const ScaleBytes bytes = scale_bytes(block);
    integers[i] = add_integers(block, bytes);
    by_element[i] = may_have_zero_or_extreme(bytes, scales[2 * i], scales[2 * i + 1], range);
  }
}

}  // namespace
}  // namespace ht::inline v1::values::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ht::inline v1::values {
namespace {

void add_elements(const std::byte* block, BlockSums& sums, ValueRange& range) noexcept {
  alignas(64) float elements[Q4_K::block_elements];
  decode_blocks(Q4_K::tag, block, 1, elements);
  const StripStatistics summary = summarize_f32(elements, Q4_K::block_elements, Summation::doubles);
  sums.sum += summary.sum;
  sums.squares += summary.squares;
  if (summary.min_magnitude == 0) sums.zeros += count_small(elements, Q4_K::block_elements, 1).zeros;
  range.min = std::min(range.min, summary.min());
  range.max = std::max(range.max, summary.max());
}

}  // namespace

bool summarize_q4_k(const std::byte* blocks, std::int64_t count, BlockSums& sums,
                    ValueRange& range) noexcept {
  std::uint16_t codes[2 * max_blocks_per_call];
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(codes + 2 * i, blocks + i * Q4_K::block_bytes, 2 * sizeof(codes[0]));
  float scales[2 * max_blocks_per_call];
  kernels_of(F16::tag).promote_f32(reinterpret_cast<const std::byte*>(codes), scales, 2 * count);
  if (!std::all_of(scales, scales + 2 * count, [](float scale) { return std::isfinite(scale); }))
    return false;

  Integers integers[max_blocks_per_call];
  bool by_element[max_blocks_per_call];
  HT_CHOOSE_TARGET(add_blocks)
  (reinterpret_cast<const std::uint8_t*>(blocks), count, scales, range, integers, by_element);
  for (std::int64_t i = 0; i < count; ++i) {
    const Integers& block = integers[i];
    const auto d = static_cast<double>(scales[2 * i]);
    const auto dmin = static_cast<double>(scales[2 * i + 1]);
    // Each product is exact.
    const double products = d * d * block.squares;
    const double offsets = 32 * dmin * dmin * block.offset_squares;
    const double squares = products - 2 * d * dmin * block.cross + offsets;
    const bool cancels = squares < 0x1p-20 * (products + offsets);
    if (by_element[i] || cancels) {
      add_elements(blocks + i * Q4_K::block_bytes, sums, range);
    } else {
      sums.sum += d * block.scaled - 32 * dmin * block.offsets;
      sums.squares += squares;
    }
  }
  return true;
}

}  // namespace ht::inline v1::values
#endif
