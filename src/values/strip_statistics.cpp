#include "values/strip_statistics.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/memory_hints.hpp"
#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "values/strip_statistics.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::values::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 8>;
using Doubles = hn::CappedTag<double, 4>;
using Ints = hn::RebindToSigned<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using FloatVector = hn::Vec<Floats>;

constexpr std::int64_t lanes = hn::MaxLanes(Floats());
constexpr std::int64_t double_lanes = hn::MaxLanes(Doubles());
constexpr std::int64_t double_vectors = interleaved_sums / double_lanes;

// Extremes of the bit patterns in lanes of 32 bits (F32) or 16 bits (BF16).
template <class Tag>
struct Extremes {
  using Signed = hn::RebindToSigned<Tag>;
  using Unsigned = hn::RebindToUnsigned<Tag>;
  using Word = hn::TFromD<Unsigned>;
  static constexpr int dropped = 32 - 8 * static_cast<int>(sizeof(Word));
  static constexpr Word sign = Word{1} << (8 * sizeof(Word) - 1);

  hn::Vec<Signed> max_signed;
  hn::Vec<Unsigned> max_unsigned;
  hn::Vec<Unsigned> min_magnitude;

  // A defaulted constructor would not be compiled for this target.
  HWY_INLINE Extremes()
      : max_signed(hn::Set(Signed(), std::numeric_limits<hn::TFromD<Signed>>::min())),
        max_unsigned(hn::Zero(Unsigned())),
        min_magnitude(hn::Set(Unsigned(), std::numeric_limits<Word>::max())) {}
  HWY_INLINE void add(hn::Vec<Unsigned> bits) {
    max_signed = hn::Max(max_signed, hn::BitCast(Signed(), bits));
    max_unsigned = hn::Max(max_unsigned, bits);
    const auto magnitude = hn::And(bits, hn::Set(Unsigned(), static_cast<Word>(~sign)));
    min_magnitude = hn::Min(min_magnitude, magnitude);
  }
  HWY_INLINE void store(StripStatistics& strip) const {
    alignas(32) hn::TFromD<Signed> signed_lanes[hn::MaxLanes(Signed())];
    alignas(32) Word unsigned_lanes[hn::MaxLanes(Unsigned())];
    alignas(32) Word magnitude_lanes[hn::MaxLanes(Unsigned())];
    hn::Store(max_signed, Signed(), signed_lanes);
    hn::Store(max_unsigned, Unsigned(), unsigned_lanes);
    hn::Store(min_magnitude, Unsigned(), magnitude_lanes);
    strip.max_signed = std::numeric_limits<std::int32_t>::min();
    strip.min_magnitude = std::numeric_limits<std::uint32_t>::max();
    for (std::size_t i = 0; i < hn::MaxLanes(Unsigned()); ++i) {
      strip.max_signed =
          std::max(strip.max_signed, static_cast<std::int32_t>(signed_lanes[i]) * (1 << dropped));
      strip.max_unsigned =
          std::max(strip.max_unsigned, static_cast<std::uint32_t>(unsigned_lanes[i]) << dropped);
      strip.min_magnitude =
          std::min(strip.min_magnitude, static_cast<std::uint32_t>(magnitude_lanes[i]) << dropped);
    }
  }
};

// The interleaved sums.
struct Sums {
  hn::Vec<Doubles> vectors[double_vectors];

  HWY_INLINE Sums() {
    for (auto& sum : vectors) sum = hn::Zero(Doubles());
  }
  // Adds a vector to the sums starting at `first`.
  HWY_INLINE void add(std::int64_t first, FloatVector values) {
    const Doubles doubles;
    const hn::Rebind<float, Doubles> narrow_floats;
    alignas(32) float elements[lanes];
    hn::StoreU(values, Floats(), elements);
    for (std::int64_t at = 0; at < lanes; at += double_lanes) {
      auto& sum = vectors[(first + at) / double_lanes];
      sum = hn::Add(sum, hn::PromoteTo(doubles, hn::LoadU(narrow_floats, elements + at)));
    }
  }
  HWY_INLINE void store(double* sums) const {
    for (std::int64_t v = 0; v < double_vectors; ++v)
      hn::StoreU(vectors[v], Doubles(), sums + v * double_lanes);
  }
};

// Results of the vectors, to which the remaining values are added one by one.
struct Interleaved {
  alignas(64) double sums[interleaved_sums]{};
  alignas(64) double squares[interleaved_sums]{};
  StripStatistics strip;

  HWY_INLINE void add(std::int64_t i, std::uint32_t bits) {
    const auto value = static_cast<double>(std::bit_cast<float>(bits));
    sums[i % interleaved_sums] += value;
    squares[i % interleaved_sums] += value * value;
    strip.max_signed = std::max(strip.max_signed, std::bit_cast<std::int32_t>(bits));
    strip.max_unsigned = std::max(strip.max_unsigned, bits);
    strip.min_magnitude = std::min(strip.min_magnitude, bits & 0x7FFFFFFF);
  }
  HWY_INLINE StripStatistics result() {
    strip.sum = add_pairwise(sums);
    strip.squares = add_pairwise(squares);
    return strip;
  }
};

StripStatistics summarize_doubles(const float* values, std::int64_t count) {
  const Doubles doubles;
  const hn::Rebind<float, Doubles> narrow_floats;
  Extremes<Words> extremes;
  Sums sums;
  Sums squares;
  const std::int64_t whole = count - count % interleaved_sums;
  for (std::int64_t i = 0; i < whole; i += interleaved_sums) {
    prefetch(values + i);
    for (std::int64_t at = 0; at < interleaved_sums; at += lanes)
      extremes.add(hn::BitCast(Words(), hn::LoadU(Floats(), values + i + at)));
    for (std::int64_t v = 0; v < double_vectors; ++v) {
      const auto value = hn::PromoteTo(doubles, hn::LoadU(narrow_floats, values + i + v * double_lanes));
      sums.vectors[v] = hn::Add(sums.vectors[v], value);
      squares.vectors[v] = hn::Add(squares.vectors[v], hn::Mul(value, value));
    }
  }
  Interleaved result;
  extremes.store(result.strip);
  sums.store(result.sums);
  squares.store(result.squares);
  for (std::int64_t i = whole; i < count; ++i) result.add(i, std::bit_cast<std::uint32_t>(values[i]));
  return result.result();
}

// The sum of vectors, and of their squares.
struct VectorSums {
  FloatVector values;
  FloatVector squares;
};

// Adds the vectors starting at `first` pairwise. Each vector is loaded when it is used, which needs few
// registers.
template <int Vectors, class LoadVector>
HWY_INLINE VectorSums add_vectors(LoadVector load, int first) {
  if constexpr (Vectors == 1) {
    const FloatVector value = load(first);
    return {value, hn::Mul(value, value)};
  } else {
    const auto a = add_vectors<Vectors / 2>(load, first);
    const auto b = add_vectors<Vectors / 2>(load, first + Vectors / 2);
    return {hn::Add(a.values, b.values), hn::Add(a.squares, b.squares)};
  }
}

// Groups of eight elements are added in F32, eight groups at a time.
constexpr std::int64_t groups = 8;
constexpr std::int64_t step_elements = 8 * groups;

// Of 64 elements, group g has the elements g, g + 8, …, g + 56.
StripStatistics summarize_groups(const float* values, std::int64_t count) {
  Extremes<Words> extremes;
  Sums sums;
  Sums squares;
  const std::int64_t whole = count - count % step_elements;
  for (std::int64_t i = 0; i < whole; i += step_elements) {
    for (std::int64_t part = 0; part < groups; part += lanes) {
      const auto load = [&](int v) HWY_ATTR {
        const auto value = hn::LoadU(Floats(), values + i + v * groups + part);
        extremes.add(hn::BitCast(Words(), value));
        return value;
      };
      const auto added = add_vectors<8>(load, 0);
      sums.add(part, added.values);
      squares.add(part, added.squares);
    }
  }
  Interleaved result;
  extremes.store(result.strip);
  sums.store(result.sums);
  squares.store(result.squares);
  for (std::int64_t i = whole; i < count; ++i) result.add(i, std::bit_cast<std::uint32_t>(values[i]));
  return result.result();
}

// Like `summarize_groups`, for BF16. A 32-bit word holds two adjacent elements. Of 32 words, group g has both
// elements of the words g, g + 8, g + 16 and g + 24.
StripStatistics summarize_codes(const std::byte* codes, std::int64_t count) {
#if HWY_TARGET == HWY_SCALAR
  using Codes = Words;  // a vector of one word cannot be split
#else
  using Codes = hn::Repartition<std::uint16_t, Words>;
#endif
  Extremes<Codes> extremes;
  Sums sums;
  Sums squares;
  const std::int64_t whole = count - count % step_elements;
  const auto upper = hn::Set(Words(), 0xFFFF0000U);
  for (std::int64_t i = 0; i < whole; i += step_elements) {
    prefetch(codes + i * 2);
    prefetch(codes + i * 2 + 64);
    for (std::int64_t part = 0; part < groups; part += lanes) {
      const auto load = [&](int v) HWY_ATTR {
        const std::byte* const from = codes + i * 2 + (v / 2 * groups + part) * 4;
#if HWY_TARGET == HWY_SCALAR
        // The scalar target requires aligned loads.
        std::uint32_t word = 0;
        std::memcpy(&word, from, sizeof(word));
        const auto words = hn::Set(Words(), word);
#else
        const auto words = hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(from));
#endif
        const auto value = v % 2 == 0 ? hn::ShiftLeft<16>(words) : hn::And(words, upper);
        if constexpr (std::is_same_v<Codes, Words>) {
          extremes.add(hn::BitCast(Codes(), value));
        } else if (v % 2 == 0) {
          extremes.add(hn::BitCast(Codes(), words));
        }
        return hn::BitCast(Floats(), value);
      };
      const auto added = add_vectors<8>(load, 0);
      sums.add(part, added.values);
      squares.add(part, added.squares);
    }
  }
  Interleaved result;
  extremes.store(result.strip);
  sums.store(result.sums);
  squares.store(result.squares);
  for (std::int64_t i = whole; i < count; ++i) {
    std::uint16_t code = 0;
    std::memcpy(&code, codes + i * 2, sizeof(code));
    result.add(i, std::uint32_t{code} << 16);
  }
  return result.result();
}

// Counts have 32 bits, so `count` must be below 2^31.
SmallCounts count_zeros_and_tiny(const float* values, std::int64_t count, std::uint32_t tiny_below) {
  const Ints ints;
  const auto limit = hn::Set(ints, static_cast<std::int32_t>(tiny_below));
  auto tiny = hn::Zero(ints);
  auto zeros = hn::Zero(ints);
  const std::int64_t whole = count - count % lanes;
  for (std::int64_t i = 0; i < whole; i += lanes) {
    const auto magnitude = hn::BitCast(ints, hn::Abs(hn::LoadU(Floats(), values + i)));
    // A true mask lane is -1.
    tiny = hn::Sub(tiny, hn::VecFromMask(ints, hn::Lt(magnitude, limit)));
    zeros = hn::Sub(zeros, hn::VecFromMask(ints, hn::Eq(magnitude, hn::Zero(ints))));
  }
  SmallCounts counts{.zeros = static_cast<std::uint64_t>(hn::GetLane(hn::SumOfLanes(ints, zeros))),
                     .tiny = static_cast<std::uint64_t>(hn::GetLane(hn::SumOfLanes(ints, tiny)))};
  for (std::int64_t i = whole; i < count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFF;
    counts.zeros += magnitude == 0 ? 1 : 0;
    counts.tiny += magnitude < tiny_below ? 1 : 0;
  }
  return counts;
}

}  // namespace
}  // namespace ht::inline v1::values::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ht::inline v1::values {

StripStatistics summarize_f32(const float* values, std::int64_t count, Summation summation) noexcept {
  return summation == Summation::doubles ? HT_CHOOSE_TARGET(summarize_doubles)(values, count)
                                         : HT_CHOOSE_TARGET(summarize_groups)(values, count);
}

StripStatistics summarize_bf16(const std::byte* codes, std::int64_t count) noexcept {
  return HT_CHOOSE_TARGET(summarize_codes)(codes, count);
}

SmallCounts count_small(const float* values, std::int64_t count, std::uint32_t tiny_below) noexcept {
  return HT_CHOOSE_TARGET(count_zeros_and_tiny)(values, count, tiny_below);
}

}  // namespace ht::inline v1::values
#endif
