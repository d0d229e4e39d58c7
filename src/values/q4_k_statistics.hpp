// Statistics of Q4_K blocks from the integers that they store.
//
// An element is d · scale · q - dmin · offset with integers scale, q and offset. Both products are exact in
// F32. So sums over a block are integer sums, multiplied once by d and dmin, and the scales and offsets bound
// the extremes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace ht::inline v1::values {

struct ValueRange {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
};

struct BlockSums {
  double sum = 0;
  double squares = 0;
  std::uint64_t zeros = 0;
};

inline constexpr std::int64_t max_blocks_per_call = 16;

/// Summarizes `count` blocks, at most `max_blocks_per_call`, and extends `range` to their values. Returns
/// false if a scale is not finite; `sums` and `range` are then unspecified.
///
/// Sums are of elements before rounding to F32. Values are never subnormal.
[[nodiscard]] bool summarize_q4_k(const std::byte* blocks, std::int64_t count, BlockSums& sums,
                                  ValueRange& range) noexcept;

}  // namespace ht::inline v1::values
