// Statistics of one strip of F32 values, a kernel for each processor.
#pragma once

#include <cstdint>

namespace ht::inline v1::values {

/// Interleaved sums: element i is added to sum i % 16, on every processor.
inline constexpr std::int64_t interleaved_sums = 16;

/// `sum`, `squares`, `min` and `max` are only meaningful if all values are finite.
struct StripMeasure {
  double sum = 0;
  double squares = 0;
  float min = 0;
  float max = 0;
  /// The largest bits without sign: those of infinity and above belong to infinities and NaN.
  std::uint32_t largest_bits = 0;
  /// How many have bits without sign below `tiny_below`.
  std::uint32_t tiny = 0;
};

/// Of at least one value. `tiny_below` is at most 0x7F800000.
[[nodiscard]] StripMeasure measure_strip(const float* values, std::int64_t count,
                                         std::uint32_t tiny_below) noexcept;

/// Adds the interleaved sums pairwise.
[[nodiscard]] inline double add_pairwise(double* sums) noexcept {
  for (std::int64_t step = interleaved_sums / 2; step > 0; step /= 2) {
    for (std::int64_t i = 0; i < step; ++i) sums[i] += sums[i + step];
  }
  return sums[0];
}

}  // namespace ht::inline v1::values
