// How `cast_lossy` treats values that the target dtype does not hold.
//
// Every conversion rounds once, from the stored value to the target. docs/dtypes.md has the rules of each
// dtype in a table. In short:
//
// - NaN stays NaN with its sign and the leading bits of its payload, and becomes quiet. It becomes 0 in an
// integer
//   dtype, true in BOOL, and the largest value in F4 and F6, which have no NaN.
// - A value beyond the largest finite one becomes infinity where the target has it, NaN where it has only
// NaN, else the
//   largest value. `saturate` makes it the largest finite value, also of an infinity. Integer dtypes always
//   saturate.
// - `toward_zero` never rounds a finite value up to infinity.
#pragma once

#include <cstdint>

namespace ht::inline v1 {

enum class RoundingMode : std::uint8_t {
  /// To the nearest value, ties to the even one.
  nearest_even,
  /// To the nearest value that is not larger in magnitude.
  toward_zero,
  /// To one of the two neighbours, the nearer one more often: the expected value is the stored one. The
  /// choice depends
  /// on the seed and on the element's row-major index alone, not on threads or pieces.
  stochastic,
};

struct Rounding {
  RoundingMode mode = RoundingMode::nearest_even;
  /// Clamp to the largest finite value instead of overflowing.
  bool saturate = false;
  /// Of `stochastic`.
  std::uint64_t seed = 0;
};

}  // namespace ht::inline v1
