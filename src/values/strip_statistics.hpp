// Statistics of a run of values in memory, dense or in Q4_K blocks. Each kernel is compiled once per Highway
// target.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace ht::inline v1::values {

/// Number of interleaved sums. Element i is added to sum i % 16 on every processor. With
/// `Summation::groups_of_floats`, the sum of each group of eight elements is added to one of the sums 0 to 7.
inline constexpr std::int64_t interleaved_sums = 16;

/// Valid only if `squares` is finite. Otherwise a value is infinite or NaN, or a sum of squares overflowed.
/// The minimum and the maximum are found by integer comparisons of bit patterns. These comparisons do not
/// delay the additions in floating point.
struct StripStatistics {
  double sum = 0;
  double squares = 0;
  /// The largest bit pattern as a signed integer: the maximum, if its sign is positive.
  std::int32_t max_signed = 0;
  /// The largest bit pattern as an unsigned integer: the minimum, if its sign is negative.
  std::uint32_t max_unsigned = 0;
  /// The smallest bit pattern without the sign.
  std::uint32_t min_magnitude = 0;

  /// Bit patterns of values of one sign are ordered by magnitude.
  [[nodiscard]] float min() const noexcept {
    const bool has_negative = (max_unsigned & 0x80000000U) != 0;
    return std::bit_cast<float>(has_negative ? max_unsigned : min_magnitude);
  }
  [[nodiscard]] float max() const noexcept {
    const bool has_positive = max_signed >= 0;
    return has_positive ? std::bit_cast<float>(max_signed) : -std::bit_cast<float>(min_magnitude);
  }
};

enum class Summation : std::uint8_t {
  /// Adds every element and its square in F64.
  doubles,
  /// Adds the elements of groups of eight pairwise in F32, and the sums of the groups in F64; the same for
  /// squares. Squares are rounded to F32. Sums of eight squares may overflow for values above 2^62. Elements
  /// that do not fill eight groups are added in F64.
  groups_of_floats,
};

/// Summarizes `count` values. Requires `count` >= 1.
[[nodiscard]] StripStatistics summarize_f32(const float* values, std::int64_t count,
                                            Summation summation) noexcept;
/// The same for unaligned BF16 codes, by `groups_of_floats`.
[[nodiscard]] StripStatistics summarize_bf16(const std::byte* codes, std::int64_t count) noexcept;

struct SmallCounts {
  std::uint64_t zeros = 0;
  /// Number of values whose bits without the sign are below the argument `tiny_below` of `count_small`, zeros
  /// included.
  std::uint64_t tiny = 0;
};

/// Counts the zeros, and the values whose bits without the sign are below `tiny_below`. `tiny_below` is from
/// 1 to 0x7F800000.
[[nodiscard]] SmallCounts count_small(const float* values, std::int64_t count,
                                      std::uint32_t tiny_below) noexcept;

/// Adds the interleaved sums pairwise.
[[nodiscard]] inline double add_pairwise(double* sums) noexcept {
  for (std::int64_t step = interleaved_sums / 2; step > 0; step /= 2) {
    for (std::int64_t i = 0; i < step; ++i) sums[i] += sums[i + step];
  }
  return sums[0];
}

// Statistics of Q4_K blocks from the integers that they store.
//
// An element is d · scale · q - dmin · offset with integers scale, q and offset. Both products are exact in
// F32. So sums over a block are integer sums, multiplied once by d and dmin, and the scales and offsets bound
// the extremes.

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
/// Decodes a block only if it may contain zeros or extend `range`, or if its sum of squares loses precision
/// by cancellation. The elements of such a block are rounded to F32, then added; elements of other blocks are
/// not rounded to F32. Elements are multiples of 2^-24 and so never subnormal in F32; BlockSums therefore
/// does not count subnormals.
[[nodiscard]] bool summarize_q4_k(const std::byte* blocks, std::int64_t count, BlockSums& sums,
                                  ValueRange& range) noexcept;

}  // namespace ht::inline v1::values
