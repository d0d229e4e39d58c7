// Properties of number types. Every relation between dtypes is derived from them.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <string_view>

namespace ht::inline v1 {

/// The byte that identifies a dtype in a file. 0 is invalid; 192 to 255 are reserved for users.
enum class DTypeTag : std::uint8_t { invalid = 0 };

inline constexpr std::uint8_t first_user_tag = 192;

/// The nth tag for a user's own dtypes, 0 to 63.
[[nodiscard]] consteval DTypeTag user_tag(int n) {
  if (n < 0 || n > 255 - first_user_tag) throw "a user's tag is one of 0 to 63";
  return static_cast<DTypeTag>(first_user_tag + n);
}

enum class NumberKind : std::uint8_t { boolean, integer, floating, complex };

/// significand × 2^exponent, exactly.
struct Magnitude {
  std::uint64_t significand = 0;
  int exponent = 0;

  friend constexpr std::strong_ordering operator<=>(Magnitude a, Magnitude b) noexcept {
    if (a.significand == 0 || b.significand == 0) return a.significand <=> b.significand;
    const int a_top = a.exponent - std::countl_zero(a.significand);
    const int b_top = b.exponent - std::countl_zero(b.significand);
    if (a_top != b_top) return a_top <=> b_top;
    return (a.significand << std::countl_zero(a.significand)) <=>
           (b.significand << std::countl_zero(b.significand));
  }
  friend constexpr bool operator==(Magnitude a, Magnitude b) noexcept { return (a <=> b) == 0; }
};

/// The finite values of a dtype: zero if `has_zero`, and every ±m × 2^e with 1 ≤ m < 2^digits and
/// e ≥ lowest_exponent between -most_negative and largest. Integers have lowest_exponent = 0. For a complex
/// dtype, they describe each of the two parts.
struct NumberFacts {
  NumberKind kind = NumberKind::integer;
  int digits = 0;
  int lowest_exponent = 0;
  Magnitude largest{};
  Magnitude most_negative{};
  bool has_zero = true;
  bool has_negative_zero = false;
};

/// Whether every finite value of `a` is a value of `b`. The sign of a zero is part of its value.
[[nodiscard]] constexpr bool holds_every_value(const NumberFacts& b, const NumberFacts& a) noexcept {
  return (b.kind == NumberKind::complex || a.kind != NumberKind::complex) && b.digits >= a.digits &&
         b.lowest_exponent <= a.lowest_exponent && b.largest >= a.largest &&
         b.most_negative >= a.most_negative && (b.has_zero || !a.has_zero) &&
         (b.has_negative_zero || !a.has_negative_zero);
}

[[nodiscard]] constexpr NumberFacts integer_facts(int bits, bool has_sign) noexcept {
  const int digits = has_sign ? bits - 1 : bits;
  return {.kind = NumberKind::integer,
          .digits = digits,
          .largest = {~std::uint64_t{0} >> (64 - digits), 0},
          .most_negative = has_sign ? Magnitude{1, digits} : Magnitude{}};
}

/// The special codes of a floating-point layout.
enum class Specials : std::uint8_t {
  ieee,               // exponent all ones: infinities and NaNs
  nan_at_all_ones,    // "FN": the largest code of each sign is NaN, no infinity
  nan_at_minus_zero,  // "FNUZ": the code of -0 is the only NaN, no infinity, no -0
  none,               // every code is a finite number
  scale,              // E8M0: powers of two, no sign, no zero, all ones is NaN
};

/// The bit fields of a floating-point number: sign, exponent, mantissa, from the most significant bit.
struct FloatLayout {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  [[nodiscard]] constexpr bool has_sign() const noexcept { return specials != Specials::scale; }
  [[nodiscard]] constexpr int bits() const noexcept {
    return exponent_bits + mantissa_bits + (has_sign() ? 1 : 0);
  }
  /// The exponent e such that every value is a multiple of 2^e.
  [[nodiscard]] constexpr int lowest_exponent() const noexcept {
    return (specials == Specials::scale ? 0 : 1) - bias - mantissa_bits;
  }
  /// The code, without its sign, of the largest finite value.
  [[nodiscard]] constexpr std::uint64_t largest_code() const noexcept {
    const std::uint64_t codes = std::uint64_t{1} << (exponent_bits + mantissa_bits);
    switch (specials) {
      case Specials::ieee: return codes - (std::uint64_t{1} << mantissa_bits) - 1;
      case Specials::nan_at_all_ones:
      case Specials::scale: return codes - 2;
      case Specials::nan_at_minus_zero:
      case Specials::none: break;
    }
    return codes - 1;
  }
  /// The magnitude of a finite code, which has no sign bit.
  [[nodiscard]] constexpr Magnitude magnitude(std::uint64_t code) const noexcept {
    const std::uint64_t implicit = std::uint64_t{1} << mantissa_bits;
    const int field = static_cast<int>(code >> mantissa_bits);
    const std::uint64_t fraction = code & (implicit - 1);
    if (specials == Specials::scale) return {1, field + lowest_exponent()};
    if (field == 0) return {fraction, lowest_exponent()};
    return {implicit | fraction, field - 1 + lowest_exponent()};
  }
};

[[nodiscard]] constexpr NumberFacts number_facts(const FloatLayout& layout) noexcept {
  const Magnitude largest = layout.magnitude(layout.largest_code());
  return {.kind = NumberKind::floating,
          .digits = layout.mantissa_bits + 1,
          .lowest_exponent = layout.lowest_exponent(),
          .largest = largest,
          .most_negative = layout.has_sign() ? largest : Magnitude{},
          .has_zero = layout.specials != Specials::scale,
          .has_negative_zero = layout.has_sign() && layout.specials != Specials::nan_at_minus_zero};
}

}  // namespace ht::inline v1
