#include "values/measure_strip.hpp"

#include <algorithm>
#include <bit>

#include "values/kernel_targets.hpp"
#include "values/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "values/measure_strip.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ht::inline v1::values::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

StripMeasure measure(const float* values, std::int64_t count, std::uint32_t tiny_below) {
  const hn::CappedTag<double, 4> doubles;
  const hn::Rebind<float, decltype(doubles)> halves;
  const hn::CappedTag<float, 8> floats;
  const hn::RebindToSigned<decltype(floats)> ints;
  constexpr std::int64_t half = hn::MaxLanes(doubles);
  constexpr std::int64_t whole = hn::MaxLanes(floats);
  constexpr std::int64_t vectors = interleaved_sums / half;

  hn::VFromD<decltype(doubles)> sums[vectors];
  hn::VFromD<decltype(doubles)> squares[vectors];
  for (auto& sum : sums) sum = hn::Zero(doubles);
  for (auto& square : squares) square = hn::Zero(doubles);
  auto min = hn::Set(floats, values[0]);
  auto max = min;
  auto largest = hn::Zero(ints);
  auto tiny = hn::Zero(ints);
  const auto magnitude_bits = hn::Set(ints, 0x7FFFFFFF);
  const auto limit = hn::Set(ints, static_cast<std::int32_t>(tiny_below));

  const std::int64_t even = count - count % interleaved_sums;
  for (std::int64_t i = 0; i < even; i += interleaved_sums) {
    for (std::int64_t at = 0; at < interleaved_sums; at += whole) {
      const auto value = hn::LoadU(floats, values + i + at);
      min = hn::Min(min, value);
      max = hn::Max(max, value);
      const auto magnitude = hn::And(hn::BitCast(ints, value), magnitude_bits);
      largest = hn::Max(largest, magnitude);
      // A true lane is -1.
      tiny = hn::Sub(tiny, hn::VecFromMask(ints, hn::Lt(magnitude, limit)));
    }
    for (std::int64_t v = 0; v < vectors; ++v) {
      const auto value = hn::PromoteTo(doubles, hn::LoadU(halves, values + i + v * half));
      sums[v] = hn::Add(sums[v], value);
      squares[v] = hn::Add(squares[v], hn::Mul(value, value));
    }
  }

  alignas(64) double sum_of[interleaved_sums];
  alignas(64) double squares_of[interleaved_sums];
  for (std::int64_t v = 0; v < vectors; ++v) {
    hn::StoreU(sums[v], doubles, sum_of + v * half);
    hn::StoreU(squares[v], doubles, squares_of + v * half);
  }
  StripMeasure strip{.min = hn::GetLane(hn::MinOfLanes(floats, min)),
                     .max = hn::GetLane(hn::MaxOfLanes(floats, max)),
                     .largest_bits = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(ints, largest))),
                     .tiny = static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(ints, tiny)))};
  for (std::int64_t i = even; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    sum_of[i - even] += value;
    squares_of[i - even] += value * value;
    strip.min = std::min(strip.min, values[i]);
    strip.max = std::max(strip.max, values[i]);
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFF;
    strip.largest_bits = std::max(strip.largest_bits, magnitude);
    strip.tiny += magnitude < tiny_below ? 1 : 0;
  }
  strip.sum = add_pairwise(sum_of);
  strip.squares = add_pairwise(squares_of);
  return strip;
}

}  // namespace
}  // namespace ht::inline v1::values::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ht::inline v1::values {

StripMeasure measure_strip(const float* values, std::int64_t count, std::uint32_t tiny_below) noexcept {
  return HT_CHOOSE_TARGET(measure)(values, count, tiny_below);
}

}  // namespace ht::inline v1::values
#endif
