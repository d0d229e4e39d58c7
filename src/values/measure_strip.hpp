// Statistics of a run of values that are in memory, a kernel for each processor.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ht::inline v1::values {

/// Interleaved sums: element i is added to sum i % 16, on every processor.
inline constexpr std::int64_t interleaved_sums = 16;

/// Valid only if `squares` is finite. Otherwise a value is infinite or NaN, or a sum of squares overflowed.
/// Extremes compare bit patterns, which integer instructions do without delaying the sums.
struct StripMeasure {
  double sum = 0;
  double squares = 0;
  /// The largest bits as signed integers: those of the maximum, if its sign is positive.
  std::int32_t max_signed = 0;
  /// The largest bits as unsigned integers: those of the minimum, if its sign is negative.
  std::uint32_t max_unsigned = 0;
  /// The smallest bits without sign.
  std::uint32_t min_magnitude = 0;

  /// The bits of values of one sign only are ordered by magnitude.
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
  /// Every element and its square are added in F64.
  doubles,
  /// Eight elements are added pairwise in F32, then their sum in F64; the same for squares. Squares are
  /// rounded to F32, and sums of eight overflow from values of 2^62 on.
  groups_of_floats,
};

/// Of at least one value.
[[nodiscard]] StripMeasure measure_f32(const float* values, std::int64_t count, Summation summation) noexcept;
/// The same for BF16 codes at any address, by `groups_of_floats`.
[[nodiscard]] StripMeasure measure_bf16(const std::byte* codes, std::int64_t count) noexcept;

struct SmallCounts {
  std::uint64_t zeros = 0;
  /// How many have bits without sign below a limit, zeros included.
  std::uint64_t tiny = 0;
};

/// `tiny_below` is at least 1 and at most 0x7F800000.
[[nodiscard]] SmallCounts count_small(const float* values, std::int64_t count,
                                      std::uint32_t tiny_below) noexcept;

/// Adds the interleaved sums pairwise.
[[nodiscard]] inline double add_pairwise(double* sums) noexcept {
  for (std::int64_t step = interleaved_sums / 2; step > 0; step /= 2) {
    for (std::int64_t i = 0; i < step; ++i) sums[i] += sums[i + step];
  }
  return sums[0];
}

}  // namespace ht::inline v1::values
