// Exact conversion between the bits of any FloatLayout and float, double and integers.
//
// Conversions use integer arithmetic only. They have no intermediate format, so no double rounding, and do
// not depend on the processor's rounding or flush-to-zero modes. The rules, for every layout:
//
// - To float or double: exact. NaN stays NaN and keeps its sign and payload; a signalling NaN may become
//   quiet.
// - From float, double, integers: round to nearest, ties to even. A value that rounds beyond the largest
//   finite value becomes infinity if the layout has infinity (F16, BF16, F8_E5M2), else NaN if the layout has
//   NaN (F8_E4M3, FNUZ, F8_E8M0), else the largest value of the same sign (F6, F4).
// - Infinity follows the same rule. NaN becomes a quiet NaN of the same sign. FNUZ and E8M0 have only one
//   NaN; F6 and F4 have no NaN, and it becomes the largest value.
// - FNUZ has no -0: -0 becomes +0. F8_E8M0 has neither zero nor sign: zero becomes the smallest value 2^-127,
//   negative numbers become NaN, and ties round up, because its one-digit significand is always odd.
#pragma once

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <htensor/dtype/facts.hpp>
#include <type_traits>
#include <utility>

namespace ht::inline v1::detail {

enum class NumberClass : std::uint8_t { finite, infinite, nan };

/// A decomposed number: ±significand × 2^exponent. For NaN, the top bits of `significand` are the payload.
struct Parts {
  NumberClass number_class = NumberClass::finite;
  bool negative = false;
  std::uint64_t significand = 0;
  int exponent = 0;
};

inline constexpr FloatLayout float_layout{8, 23, 127, Specials::ieee};
inline constexpr FloatLayout double_layout{11, 52, 1023, Specials::ieee};

[[nodiscard]] constexpr Parts take_apart(const FloatLayout& layout, std::uint64_t bits) noexcept {
  const int code_bits = layout.exponent_bits + layout.mantissa_bits;
  const std::uint64_t code = bits & ((std::uint64_t{1} << code_bits) - 1);
  Parts parts;
  parts.negative = layout.has_sign() && ((bits >> code_bits) & 1) != 0;
  if (layout.specials == Specials::nan_at_minus_zero && parts.negative && code == 0) {
    parts.number_class = NumberClass::nan;
  } else if (code <= layout.largest_code()) {
    const Magnitude magnitude = layout.magnitude(code);
    parts.significand = magnitude.significand;
    parts.exponent = magnitude.exponent;
  } else if (layout.specials == Specials::ieee && code == layout.largest_code() + 1) {
    parts.number_class = NumberClass::infinite;
  } else {
    parts.number_class = NumberClass::nan;
    if (layout.mantissa_bits > 0) parts.significand = code << (64 - layout.mantissa_bits);
  }
  return parts;
}

[[nodiscard]] constexpr Parts take_apart(float value) noexcept {
  return take_apart(float_layout, std::bit_cast<std::uint32_t>(value));
}

[[nodiscard]] constexpr Parts take_apart(double value) noexcept {
  return take_apart(double_layout, std::bit_cast<std::uint64_t>(value));
}

template <std::integral T>
[[nodiscard]] constexpr Parts take_apart(T value) noexcept {
  const bool negative = std::cmp_less(value, 0);
  const auto magnitude = static_cast<std::uint64_t>(value);
  return {.negative = negative, .significand = negative ? std::uint64_t{0} - magnitude : magnitude};
}

/// `significand` / 2^shift, rounded to nearest, ties to even. The shift may be negative.
[[nodiscard]] constexpr std::uint64_t shift_right_rounded(std::uint64_t significand, int shift) noexcept {
  if (shift <= 0) return significand << -shift;
  if (shift > 64) return 0;
  const std::uint64_t kept = shift < 64 ? significand >> shift : 0;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const std::uint64_t lost = significand & (half | (half - 1));
  const bool up = lost > half || (lost == half && (kept & 1) != 0);
  return kept + (up ? 1 : 0);
}

/// The code, without sign, of a value beyond the largest finite value.
[[nodiscard]] constexpr std::uint64_t overflow_code(const FloatLayout& layout) noexcept {
  return layout.specials == Specials::none ? layout.largest_code() : layout.largest_code() + 1;
}

[[nodiscard]] constexpr std::uint64_t nan_code(const FloatLayout& layout, std::uint64_t payload) noexcept {
  if (layout.specials != Specials::ieee) return overflow_code(layout);
  const std::uint64_t quiet = std::uint64_t{1} << (layout.mantissa_bits - 1);
  return overflow_code(layout) | quiet | (payload >> (64 - layout.mantissa_bits));
}

/// The code, without sign, of a finite magnitude after rounding. It may exceed `largest_code()`.
[[nodiscard]] constexpr std::uint64_t rounded_code(const FloatLayout& layout, const Parts& parts) noexcept {
  if (parts.significand == 0) return 0;
  const int lowest = layout.lowest_exponent();
  const int top = 63 - std::countl_zero(parts.significand) + parts.exponent;
  const int unit = std::max(top - layout.mantissa_bits, lowest);
  const std::uint64_t rounded = shift_right_rounded(parts.significand, unit - parts.exponent);
  // Codes are in the order of magnitudes, so a carry out of the mantissa increments the exponent.
  const std::uint64_t code = (static_cast<std::uint64_t>(unit - lowest) << layout.mantissa_bits) + rounded;
  // Code 0 of a scale is a power of two, not zero.
  return layout.specials == Specials::scale && code > 0 ? code - 1 : code;
}

/// The bits of the number nearest to `parts` in the layout.
[[nodiscard]] constexpr std::uint64_t put_together(const FloatLayout& layout, const Parts& parts) noexcept {
  const int code_bits = layout.exponent_bits + layout.mantissa_bits;
  const std::uint64_t sign = parts.negative && layout.has_sign() ? std::uint64_t{1} << code_bits : 0;
  std::uint64_t code = 0;
  if (parts.number_class == NumberClass::nan) {
    // Without NaN in the layout, the sign of a NaN is dropped.
    if (layout.specials == Specials::none) return layout.largest_code();
    code = nan_code(layout, parts.significand);
  } else if (parts.number_class == NumberClass::infinite) {
    code = overflow_code(layout);
  } else {
    code = std::min(rounded_code(layout, parts), overflow_code(layout));
  }
  if (layout.specials == Specials::scale) {
    const bool below_zero = parts.negative && parts.significand != 0;
    return below_zero ? overflow_code(layout) : code;
  }
  if (layout.specials == Specials::nan_at_minus_zero) {
    if (code > layout.largest_code()) return std::uint64_t{1} << code_bits;
    if (code == 0) return 0;
  }
  return sign | code;
}

template <class To>
[[nodiscard]] constexpr To to_native(const Parts& parts) noexcept {
  if constexpr (std::same_as<To, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(put_together(float_layout, parts)));
  } else {
    return std::bit_cast<double>(put_together(double_layout, parts));
  }
}

}  // namespace ht::inline v1::detail
