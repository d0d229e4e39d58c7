// How `cast_lossy` converts values that the target dtype cannot represent.
//
// Every conversion rounds once, from the stored value to the target. docs/dtypes.md has a table of the rules
// of each dtype. In short:
//
// - NaN becomes a quiet NaN with the same sign and the leading bits of its payload. In dtypes without NaN, it
//   becomes 0 (integers), true (BOOL) or the largest value (F4 and F6).
// - A value beyond the largest finite value becomes infinity if the target has infinity, else NaN if the
//   target has NaN, else the largest value. With `saturate`, such a value and infinity become the largest
//   finite value. Integer dtypes always saturate.
// - `toward_zero` never rounds a finite value up to infinity.
#pragma once

#include <cstdint>

namespace ht::inline v1 {

enum class RoundingMode : std::uint8_t {
  /// To the nearest value, ties to even.
  nearest_even,
  /// To the nearest value that is not larger in magnitude.
  toward_zero,
  /// To one of the two neighbours, at random, such that the expected result is the stored value. The choice
  /// depends only on the seed and on the element's row-major index, not on threads.
  stochastic,
};

struct Rounding {
  RoundingMode mode = RoundingMode::nearest_even;
  /// Clamp to the largest finite value instead of overflowing.
  bool saturate = false;
  /// The seed of `stochastic`.
  std::uint64_t seed = 0;
};

}  // namespace ht::inline v1
