// Element types of the dtypes that no C++ type represents: F16, BF16, floats of 8, 6 and 4 bits, I4, U4 and
// BOOL.
//
//   const ht::F16::Element half(1.5F);                      // explicit: rounds to nearest even
//   const float wide = half;                                // implicit: F16 and F32 are one family
//   const auto b = ht::BF16::Element::from_bits(0x3FC0);    // 1.5
//   const auto f = static_cast<float>(b);                   // explicit: BF16 is another family
//
// An element is a value that holds exactly the stored bits, so a mapped file can be read as an array of
// elements. It converts implicitly if UpcastableTo holds (F16 to float), else explicitly to float and double
// (BF16 to float), by the rules below. Elements have no arithmetic: convert them first.
//
// Ownership and threads: elements are trivially copyable values without pointers; copies are independent. All
// functions are constexpr, noexcept and without state, so many threads may call them at once.
//
// Cost: floats of 8 bits and fewer convert through a table that the compiler builds; BF16 to float is a
// shift; other conversions are a few integer operations. `cast` (values/cast.hpp) converts whole tensors with
// SIMD and gives the same bits.
//
//   const auto codes = std::array{ht::F8_E4M3::Element(448.0F), ht::F8_E4M3::Element(1e9F)};  // 448 and NaN
//   const int low = ht::I4::Element(-100);                  // saturates: -8
//   const bool yes = ht::Boolean::from_bits(2);             // every byte except 0 is true
//   static_assert(std::same_as<ht::DTypeOf<double>, ht::F64>);
//
//   from                        to                    how
//   F16                         float, double         implicit, exact
//   BF16, F8, F6, F4            float, double         static_cast, exact
//   float, double, integers     any element           explicit constructor, rounds once
//   small floats of one family  wider, if lossless    implicit, exact
//   small floats                other small floats    static_cast, exact or rounded once
//   I4                          signed integers       implicit, exact
//   U4                          unsigned integers     implicit, exact
//   I4, U4                      float, double         static_cast, exact
//   Boolean                     bool                  implicit
//   Boolean                     numbers               static_cast: 0 or 1
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <complex>
#include <concepts>
#include <cstdint>
#include <htensor/dtype/dtypes.hpp>
#include <htensor/dtype/relations.hpp>
#include <type_traits>
#include <utility>

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
//   NaN; F6 and F4 have no NaN: NaN becomes the largest positive value.
// - FNUZ has no -0: -0 becomes +0. F8_E8M0 has neither zero nor sign: zero becomes the smallest value 2^-127,
//   negative numbers become NaN. F8_E8M0 has no mantissa, so neither neighbour of a tie is even, and the tie
//   rounds to the larger value, as in IEEE 754.

namespace ht::inline v1::detail {

/// The class of a decomposed number. Zero is finite, with the significand 0.
enum class NumberClass : std::uint8_t { finite, infinite, nan };

/// A decomposed number: ±significand × 2^exponent. For NaN, the top bits of `significand` are the payload.
/// Enough for every format of at most 64 significant bits, so that two formats convert through it without a
/// second rounding.
struct Parts {
  NumberClass number_class = NumberClass::finite;
  bool negative = false;
  std::uint64_t significand = 0;
  int exponent = 0;
};

// The layouts of float and double, so that `decompose` and `compose` convert these types as well.
inline constexpr FloatLayout float_layout{8, 23, 127, FloatLayout::Specials::ieee};
inline constexpr FloatLayout double_layout{11, 52, 1023, FloatLayout::Specials::ieee};

/// Decomposes the number that `bits` encode in the layout. Bits above the width of the layout are ignored.
/// The parts of a finite number are exact.
[[nodiscard]] constexpr Parts decompose(const FloatLayout& layout, std::uint64_t bits) noexcept {
  const int code_bits = layout.exponent_bits + layout.mantissa_bits;
  const std::uint64_t code = bits & ((std::uint64_t{1} << code_bits) - 1);
  Parts parts;
  parts.negative = layout.has_sign() && ((bits >> code_bits) & 1) != 0;
  if (layout.specials == FloatLayout::Specials::nan_at_minus_zero && parts.negative && code == 0) {
    parts.number_class = NumberClass::nan;
  } else if (code <= layout.largest_code()) {
    const NumberFacts::Magnitude magnitude = layout.magnitude(code);
    parts.significand = magnitude.significand;
    parts.exponent = magnitude.exponent;
  } else if (layout.specials == FloatLayout::Specials::ieee && code == layout.largest_code() + 1) {
    parts.number_class = NumberClass::infinite;
  } else {
    parts.number_class = NumberClass::nan;
    if (layout.mantissa_bits > 0) parts.significand = code << (64 - layout.mantissa_bits);
  }
  return parts;
}

/// Decomposes a float or double. Every payload bit of a NaN is kept.
[[nodiscard]] constexpr Parts decompose(float value) noexcept {
  return decompose(float_layout, std::bit_cast<std::uint32_t>(value));
}

[[nodiscard]] constexpr Parts decompose(double value) noexcept {
  return decompose(double_layout, std::bit_cast<std::uint64_t>(value));
}

/// Decomposes an integer. Negates it as unsigned, because the magnitude of the lowest integer does not fit
/// its type.
template <std::integral T>
[[nodiscard]] constexpr Parts decompose(T value) noexcept {
  const bool negative = std::cmp_less(value, 0);
  const auto magnitude = static_cast<std::uint64_t>(value);
  return {.negative = negative, .significand = negative ? std::uint64_t{0} - magnitude : magnitude};
}

/// `significand` / 2^shift, rounded to nearest, ties to even. The shift may be negative. A carry out of the
/// kept bits is part of the result. A shift above 64 gives 0.
[[nodiscard]] constexpr std::uint64_t shift_right_rounded(std::uint64_t significand, int shift) noexcept {
  if (shift <= 0) return significand << -shift;
  if (shift > 64) return 0;
  const std::uint64_t quotient = shift < 64 ? significand >> shift : 0;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const std::uint64_t lost = significand & (half | (half - 1));
  const bool up = lost > half || (lost == half && (quotient & 1) != 0);
  return quotient + (up ? 1 : 0);
}

/// The code, without its sign, that represents a value beyond the largest finite value. The code of infinity
/// or NaN if the layout has one, else the largest finite code.
[[nodiscard]] constexpr std::uint64_t overflow_code(const FloatLayout& layout) noexcept {
  return layout.specials == FloatLayout::Specials::none ? layout.largest_code() : layout.largest_code() + 1;
}

/// The code, without its sign, of a quiet NaN with this payload where the layout has payloads. The quiet bit
/// is always set, so that a payload of 0 does not become infinity.
[[nodiscard]] constexpr std::uint64_t nan_code(const FloatLayout& layout, std::uint64_t payload) noexcept {
  if (layout.specials != FloatLayout::Specials::ieee) return overflow_code(layout);
  const std::uint64_t quiet = std::uint64_t{1} << (layout.mantissa_bits - 1);
  return overflow_code(layout) | quiet | (payload >> (64 - layout.mantissa_bits));
}

/// The code, without sign, of a finite magnitude after rounding. It may exceed `largest_code()`. The caller
/// compares it with `largest_code()` to detect overflow. Subnormal numbers need no branch: the exponent of
/// the last digit is at least `lowest_exponent()`.
[[nodiscard]] constexpr std::uint64_t rounded_code(const FloatLayout& layout, const Parts& parts) noexcept {
  if (parts.significand == 0) return 0;
  const int lowest = layout.lowest_exponent();
  const int top = 63 - std::countl_zero(parts.significand) + parts.exponent;
  const int unit = std::max(top - layout.mantissa_bits, lowest);
  const std::uint64_t rounded = shift_right_rounded(parts.significand, unit - parts.exponent);
  // Codes are in the order of magnitudes, so a carry out of the mantissa increments the exponent.
  const std::uint64_t code = (static_cast<std::uint64_t>(unit - lowest) << layout.mantissa_bits) + rounded;
  // Code 0 of a scale is a power of two, not zero.
  return layout.specials == FloatLayout::Specials::scale && code > 0 ? code - 1 : code;
}

/// The bits of the number nearest to `parts` in the layout. The rules are those at the top of this file. The
/// result has no bits above the width of the layout.
[[nodiscard]] constexpr std::uint64_t compose(const FloatLayout& layout, const Parts& parts) noexcept {
  const int code_bits = layout.exponent_bits + layout.mantissa_bits;
  const std::uint64_t sign = parts.negative && layout.has_sign() ? std::uint64_t{1} << code_bits : 0;
  std::uint64_t code = 0;
  if (parts.number_class == NumberClass::nan) {
    // If the layout has no NaN, the sign of a NaN is dropped.
    if (layout.specials == FloatLayout::Specials::none) return layout.largest_code();
    code = nan_code(layout, parts.significand);
  } else if (parts.number_class == NumberClass::infinite) {
    code = overflow_code(layout);
  } else {
    code = std::min(rounded_code(layout, parts), overflow_code(layout));
  }
  if (layout.specials == FloatLayout::Specials::scale) {
    const bool below_zero = parts.negative && parts.significand != 0;
    return below_zero ? overflow_code(layout) : code;
  }
  if (layout.specials == FloatLayout::Specials::nan_at_minus_zero) {
    if (code > layout.largest_code()) return std::uint64_t{1} << code_bits;
    if (code == 0) return 0;
  }
  return sign | code;
}

/// The float or double nearest to `parts`; exact if the parts come from a layout that the type holds.
template <class To>
[[nodiscard]] constexpr To to_native(const Parts& parts) noexcept {
  if constexpr (std::same_as<To, float>) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(compose(float_layout, parts)));
  } else {
    return std::bit_cast<double>(compose(double_layout, parts));
  }
}

}  // namespace ht::inline v1::detail

namespace ht::inline v1 {

namespace detail {

// One specialization for each C++ type that is an Element; integers by their width and sign.
template <class T>
struct DTypeOf {};
template <>
struct DTypeOf<float> : std::type_identity<F32> {};
template <>
struct DTypeOf<double> : std::type_identity<F64> {};
template <>
struct DTypeOf<std::complex<float>> : std::type_identity<C64> {};
template <>
struct DTypeOf<Boolean> : std::type_identity<Bool> {};
template <class D>
struct DTypeOf<SmallFloat<D>> : std::type_identity<D> {};
template <class D>
struct DTypeOf<SmallInt<D>> : std::type_identity<D> {};
template <class T>
  requires std::integral<T> && (!std::same_as<T, bool>) && (sizeof(T) <= 8)
struct DTypeOf<T> : std::conditional<std::is_signed_v<T>, Int<int{8 * sizeof(T)}>, UInt<int{8 * sizeof(T)}>> {
};

// The C++ types that elements convert to and from. `bool` is excluded, so that a comparison does not become a
// number by accident.
template <class T>
concept NativeFloat = std::same_as<T, float> || std::same_as<T, double>;

template <class T>
concept NativeInt = std::integral<T> && !std::same_as<T, bool>;

template <class T>
concept NativeNumber = NativeFloat<T> || NativeInt<T>;

}  // namespace detail

/// The dtype that has T as its Element: F32 for `float`, I32 for `std::int32_t`, C64 for
/// `std::complex<float>`, BF16 for `BF16::Element`. `bool`, `long double` and other types have no dtype, and
/// their DTypeOf does not compile.
template <class T>
using DTypeOf = typename detail::DTypeOf<T>::type;

/// A boolean in a byte: 0 is false, every other byte is true. Files may contain any byte, which a C++ `bool`
/// must not. Two objects with different bytes may both be true: compare them as `bool`, not by `bits`.
class Boolean {
 public:
  constexpr Boolean() noexcept = default;
  /// From `bool` only: implicit, because no value is lost. The byte is 0 or 1.
  template <std::same_as<bool> T>
  constexpr Boolean(T value) noexcept : byte_(value ? 1 : 0) {}
  /// From a number: every number except 0 is true, NaN included.
  template <detail::NativeNumber T>
  constexpr explicit Boolean(T value) noexcept : byte_(value != T{0} ? 1 : 0) {}

  /// Takes the byte unchanged, as a file has it.
  [[nodiscard]] static constexpr Boolean from_bits(std::uint8_t byte) noexcept {
    Boolean value;
    value.byte_ = byte;
    return value;
  }
  /// The stored byte.
  [[nodiscard]] constexpr std::uint8_t bits() const noexcept { return byte_; }

  // A template, because a plain operator bool would allow implicit conversion to any number.
  template <std::same_as<bool> T>
  constexpr operator T() const noexcept {
    return byte_ != 0;
  }
  /// 0 if the byte is 0, else 1.
  template <detail::NativeNumber T>
  constexpr explicit operator T() const noexcept {
    return byte_ != 0 ? T{1} : T{0};
  }

 private:
  std::uint8_t byte_ = 0;
};

/// One element of a floating-point dtype of 16 bits or fewer. Its bits are in the low bits of a byte or of
/// two bytes in the byte order of this machine. The value is converted to float or double for arithmetic, and
/// rounded once when it is stored again.
template <class D>
class SmallFloat {
  static_assert(D::bits == D::layout.bits() && D::bits <= 16, "the layout has the dtype's width");
  static_assert(D::layout.mantissa_bits > 0 || D::layout.specials != FloatLayout::Specials::ieee,
                "without a mantissa, infinity leaves no code for NaN");

 public:
  /// The unsigned integer that holds the bits.
  using Bits = std::conditional_t<D::bits <= 8, std::uint8_t, std::uint16_t>;

  /// All bits zero: the number 0, except in F8_E8M0, where the code 0 is 2^-127.
  constexpr SmallFloat() noexcept = default;

  /// Rounds to nearest, ties to even, by the rules at the top of this file: overflow becomes infinity, NaN or
  /// the largest value, in this order of preference.
  template <detail::NativeNumber T>
  constexpr explicit SmallFloat(T value) noexcept
      : bits_(static_cast<Bits>(detail::compose(D::layout, detail::decompose(value)))) {}

  /// Bits above the width of D are dropped.
  [[nodiscard]] static constexpr SmallFloat from_bits(Bits bits) noexcept {
    SmallFloat value;
    value.bits_ = static_cast<Bits>(bits & ((1U << D::bits) - 1U));
    return value;
  }
  /// The stored bits; -0 and NaNs with different payloads stay different.
  [[nodiscard]] constexpr Bits bits() const noexcept { return bits_; }

  /// Exact for float and double. Implicit within a family only, so that a BF16 does not become a float
  /// unnoticed.
  template <detail::NativeFloat T>
  constexpr explicit(!UpcastableTo<D, DTypeOf<T>>) operator T() const noexcept {
    if constexpr (D::bits <= 8) {
      return values<T>[bits_ & code_mask];
    } else if constexpr (std::same_as<T, float> && is_top_of_float) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
    } else {
      return detail::to_native<T>(detail::decompose(D::layout, bits_));
    }
  }

  /// Converts to another small float: exact if possible, else rounded once. Two conversions through float
  /// could round twice.
  template <class Other>
  constexpr explicit(!UpcastableTo<D, Other>) operator SmallFloat<Other>() const noexcept {
    using OtherBits = typename SmallFloat<Other>::Bits;
    const auto parts = detail::decompose(D::layout, bits_);
    return SmallFloat<Other>::from_bits(static_cast<OtherBits>(detail::compose(Other::layout, parts)));
  }

  // Compare as numbers: NaN is unequal to itself, -0 equals +0. A double holds every small float, so the
  // comparison is exact.
  friend constexpr bool operator==(SmallFloat a, SmallFloat b) noexcept {
    return static_cast<double>(a) == static_cast<double>(b);
  }
  friend constexpr std::partial_ordering operator<=>(SmallFloat a, SmallFloat b) noexcept {
    return static_cast<double>(a) <=> static_cast<double>(b);
  }

 private:
  static constexpr bool is_top_of_float = D::layout.exponent_bits == 8 && D::layout.mantissa_bits == 7 &&
                                          D::layout.bias == 127 &&
                                          D::layout.specials == FloatLayout::Specials::ieee;
  static constexpr unsigned code_mask = (1U << std::min(D::bits, 8)) - 1U;

  // The table of the values of all codes, for dtypes of 8 bits or fewer. At most 256 values; one table for
  // each C++ type that a program converts to.
  template <class T>
  static constexpr auto values = [] {
    std::array<T, code_mask + 1> table{};
    for (unsigned code = 0; code <= code_mask; ++code) {
      table[code] = detail::to_native<T>(detail::decompose(D::layout, code));
    }
    return table;
  }();

  Bits bits_ = 0;
};

/// A 4-bit integer. Conversion from a number rounds to nearest even and saturates; NaN becomes 0. The bits
/// above the width are always 0. Comparison is by value, so a negative I4 is less than 0.
template <class D>
class SmallInt {
 public:
  using Bits = std::uint8_t;
  /// Whether the integer is signed, and its lowest and highest values.
  static constexpr bool has_sign = D::number.largest_negative.significand != 0;
  static constexpr int lowest = has_sign ? -(1 << (D::bits - 1)) : 0;
  static constexpr int highest = (1 << D::number.digits) - 1;

  constexpr SmallInt() noexcept = default;

  /// From an integer: values below `lowest` or above `highest` saturate.
  template <detail::NativeInt T>
  constexpr explicit SmallInt(T value) noexcept
      : bits_(to_bits(std::cmp_less(value, lowest)       ? lowest
                      : std::cmp_greater(value, highest) ? highest
                                                         : static_cast<int>(value))) {}

  /// From a floating-point number: to nearest, ties to even; infinities saturate.
  template <detail::NativeFloat T>
  constexpr explicit SmallInt(T value) noexcept : bits_(to_bits(nearest(value))) {}

  /// The upper four bits are dropped.
  [[nodiscard]] static constexpr SmallInt from_bits(Bits bits) noexcept {
    SmallInt value;
    value.bits_ = bits & mask;
    return value;
  }
  [[nodiscard]] constexpr Bits bits() const noexcept { return bits_; }

  /// Implicit to wider integers of the same signedness, explicit to all other numbers.
  template <detail::NativeNumber T>
  constexpr explicit(!UpcastableTo<D, DTypeOf<T>>) operator T() const noexcept {
    return static_cast<T>(value());
  }

  friend constexpr bool operator==(SmallInt a, SmallInt b) noexcept = default;
  friend constexpr std::strong_ordering operator<=>(SmallInt a, SmallInt b) noexcept {
    return a.value() <=> b.value();
  }

 private:
  static constexpr Bits mask = (1U << D::bits) - 1U;

  [[nodiscard]] constexpr int value() const noexcept {
    const int unsigned_value = bits_;
    return has_sign && unsigned_value > highest ? unsigned_value - (1 << D::bits) : unsigned_value;
  }
  [[nodiscard]] static constexpr Bits to_bits(int value) noexcept {
    return static_cast<Bits>(static_cast<unsigned>(value) & mask);
  }
  // The integer nearest to a floating-point number, clamped to [lowest, highest]. NaN is 0.
  template <class T>
  [[nodiscard]] static constexpr int nearest(T value) noexcept {
    if (value != value) return 0;
    if (value <= static_cast<T>(lowest)) return lowest;
    if (value >= static_cast<T>(highest)) return highest;
    const auto parts = detail::decompose(value);
    const auto magnitude = static_cast<int>(detail::shift_right_rounded(parts.significand, -parts.exponent));
    return parts.negative ? -magnitude : magnitude;
  }

  Bits bits_ = 0;
};

}  // namespace ht::inline v1
