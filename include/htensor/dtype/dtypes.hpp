// The dtypes: empty types with static properties. All 22 dtypes of safetensors by their names, and I4, U4.
//
// Dtypes have no objects and no state. The tags are written into files (spec/ht-format.md) and never change.
//
// A dtype of your own is a struct with the same members:
//
//   struct F8_E3M4 {                                        // 3 exponent and 4 mantissa bits
//     using Family = ht::family::MiniFloat;
//     using Element = ht::SmallFloat<F8_E3M4>;
//     static constexpr std::string_view name = "F8_E3M4";
//     static constexpr int bits = 8;
//     static constexpr int width_rank = bits;
//     static constexpr ht::DTypeTag tag = ht::user_tag(0);  // 0 to 63
//     static constexpr ht::FloatLayout layout{3, 4, 3, ht::FloatLayout::Specials::ieee};
//     static constexpr ht::NumberFacts number = ht::number_facts(layout);
//   };
#pragma once

#include <bit>
#include <compare>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

// Properties of number types. Every relation between dtypes is derived from them.

namespace ht::inline v1 {

/// The byte that identifies a dtype in a file. 0 is invalid; 192 to 255 are reserved for users.
enum class DTypeTag : std::uint8_t { invalid = 0 };

inline constexpr std::uint8_t first_user_tag = 192;

/// The tag of the user-defined dtype number `n`, from 0 to 63.
[[nodiscard]] consteval DTypeTag user_tag(int n) {
  if (n < 0 || n > 255 - first_user_tag) throw "a user's tag is one of 0 to 63";
  return static_cast<DTypeTag>(first_user_tag + n);
}

/// The finite values of a dtype: zero if `has_zero`, and every v = ±m × 2^e with 1 ≤ m < 2^digits,
/// e ≥ lowest_exponent and -largest_negative ≤ v ≤ largest; both limits are magnitudes. Integers have
/// lowest_exponent = 0. For a complex dtype, they describe each of the two parts.
struct NumberFacts {
  enum class Kind : std::uint8_t { boolean, integer, floating, complex };

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

  Kind kind = Kind::integer;
  int digits = 0;
  int lowest_exponent = 0;
  Magnitude largest{};
  Magnitude largest_negative{};
  bool has_zero = true;
  bool has_negative_zero = false;
};

/// Whether every finite value of `a` is a value of `b`. The sign of a zero is part of its value.
[[nodiscard]] constexpr bool holds_every_value(const NumberFacts& b, const NumberFacts& a) noexcept {
  return (b.kind == NumberFacts::Kind::complex || a.kind != NumberFacts::Kind::complex) &&
         b.digits >= a.digits && b.lowest_exponent <= a.lowest_exponent && b.largest >= a.largest &&
         b.largest_negative >= a.largest_negative && (b.has_zero || !a.has_zero) &&
         (b.has_negative_zero || !a.has_negative_zero);
}

/// The facts of an integer dtype in two's complement.
[[nodiscard]] constexpr NumberFacts integer_facts(int bits, bool has_sign) noexcept {
  const int digits = has_sign ? bits - 1 : bits;
  return {.kind = NumberFacts::Kind::integer,
          .digits = digits,
          .largest = {~std::uint64_t{0} >> (64 - digits), 0},
          .largest_negative = has_sign ? NumberFacts::Magnitude{1, digits} : NumberFacts::Magnitude{}};
}

/// The bit fields of a floating-point number: sign, exponent, mantissa, from the most significant bit.
struct FloatLayout {
  /// The special codes of a floating-point layout.
  enum class Specials : std::uint8_t {
    ieee,               // exponent all ones: infinities and NaNs
    nan_at_all_ones,    // "FN": the largest code of each sign is NaN, no infinity
    nan_at_minus_zero,  // "FNUZ": the code of -0 is the only NaN, no infinity, no -0
    none,               // every code is a finite number
    scale,              // E8M0: powers of two, no sign, no zero, all ones is NaN
  };

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
  [[nodiscard]] constexpr NumberFacts::Magnitude magnitude(std::uint64_t code) const noexcept {
    const std::uint64_t implicit = std::uint64_t{1} << mantissa_bits;
    const int field = static_cast<int>(code >> mantissa_bits);
    const std::uint64_t fraction = code & (implicit - 1);
    if (specials == Specials::scale) return {1, field + lowest_exponent()};
    if (field == 0) return {fraction, lowest_exponent()};
    return {implicit | fraction, field - 1 + lowest_exponent()};
  }
};

/// The facts of a floating-point dtype with this layout.
[[nodiscard]] constexpr NumberFacts number_facts(const FloatLayout& layout) noexcept {
  const NumberFacts::Magnitude largest = layout.magnitude(layout.largest_code());
  return {
      .kind = NumberFacts::Kind::floating,
      .digits = layout.mantissa_bits + 1,
      .lowest_exponent = layout.lowest_exponent(),
      .largest = largest,
      .largest_negative = layout.has_sign() ? largest : NumberFacts::Magnitude{},
      .has_zero = layout.specials != FloatLayout::Specials::scale,
      .has_negative_zero = layout.has_sign() && layout.specials != FloatLayout::Specials::nan_at_minus_zero};
}

/// A dtype has a name, a width in bits, a family, a tag that identifies it in files, and the C++ type of one
/// element. If the width is a whole number of bytes, the bytes of an Element are its stored bytes. Narrower
/// elements are packed (see packed.hpp).
template <class T>
concept IsDType = std::is_empty_v<T> && std::same_as<T, std::remove_cv_t<T>> && requires {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::bits } -> std::convertible_to<int>;
  { T::tag } -> std::convertible_to<DTypeTag>;
  typename T::Family;
  typename T::Element;
};

/// A dtype whose elements are numbers, described by `NumberFacts`.
template <class T>
concept IsNumber = IsDType<T> && requires {
  { T::number } -> std::convertible_to<const NumberFacts&>;
};

/// A dtype with addition, subtraction and multiplication: integers, floating-point and complex numbers.
template <class T>
concept Multipliable = IsNumber<T> && T::number.kind != NumberFacts::Kind::boolean;

/// A number dtype that has an order within its family, by width: `width_rank`. `Bool` has none.
template <class T>
concept Precision = IsNumber<T> && requires {
  { T::width_rank } -> std::convertible_to<int>;
};

/// The families. A user's dtype may use one of these or define its own.
namespace family {
struct Float {};
struct BFloat {};
struct Int {};
struct UInt {};
struct Bool {};
struct Complex {};
struct MiniFloat {};
}  // namespace family

// Value types of elements; see scalar.hpp.
template <class D>
class SmallFloat;
template <class D>
class SmallInt;
class Boolean;

namespace detail {

constexpr DTypeTag library_tag(int number) { return static_cast<DTypeTag>(number); }

template <int Bits>
concept IntWidth = Bits == 4 || Bits == 8 || Bits == 16 || Bits == 32 || Bits == 64;

// Selects the choice for a width; `choices` are for 4, 8, 16, 32 and 64 bits.
template <int Bits, class T, std::size_t N>
constexpr T by_width(const T (&choices)[N]) {
  return choices[std::bit_width(static_cast<unsigned>(Bits)) - 3];
}

template <class D, int Bits, class Native8, class Native16, class Native32, class Native64>
using IntElement = std::conditional_t<
    Bits == 4, SmallInt<D>,
    std::conditional_t<
        Bits == 8, Native8,
        std::conditional_t<Bits == 16, Native16, std::conditional_t<Bits == 32, Native32, Native64>>>>;

struct MiniFloatRow {
  int exponent_bits;
  int mantissa_bits;
  FloatLayout::Specials specials;
  std::string_view name;
  int tag;
};

inline constexpr MiniFloatRow mini_floats[] = {
    {2, 1, FloatLayout::Specials::none, "F4", 17},
    {2, 3, FloatLayout::Specials::none, "F6_E2M3", 18},
    {3, 2, FloatLayout::Specials::none, "F6_E3M2", 19},
    {4, 3, FloatLayout::Specials::nan_at_all_ones, "F8_E4M3", 20},
    {5, 2, FloatLayout::Specials::ieee, "F8_E5M2", 21},
    {8, 0, FloatLayout::Specials::scale, "F8_E8M0", 22},
    {4, 3, FloatLayout::Specials::nan_at_minus_zero, "F8_E4M3FNUZ", 23},
    {5, 2, FloatLayout::Specials::nan_at_minus_zero, "F8_E5M2FNUZ", 24},
};

// The row with this layout; a row with an empty name if there is none.
consteval MiniFloatRow mini_float(int exponent_bits, int mantissa_bits, FloatLayout::Specials specials) {
  for (const auto& row : mini_floats) {
    if (row.exponent_bits == exponent_bits && row.mantissa_bits == mantissa_bits &&
        row.specials == specials) {
      return row;
    }
  }
  return {};
}

template <int ExponentBits, int MantissaBits, FloatLayout::Specials S>
concept IsMiniFloat = !mini_float(ExponentBits, MantissaBits, S).name.empty();

}  // namespace detail

/// A boolean in a byte. Its values are the numbers 0 and 1. It has no width rank.
struct Bool {
  using Family = family::Bool;
  using Element = Boolean;
  static constexpr std::string_view name = "BOOL";
  static constexpr int bits = 8;
  static constexpr DTypeTag tag = detail::library_tag(1);
  static constexpr NumberFacts number{.kind = NumberFacts::Kind::boolean, .digits = 1, .largest = {1, 0}};
};

template <int Bits>
  requires detail::IntWidth<Bits>
struct Int {
  using Family = family::Int;
  using Element = detail::IntElement<Int, Bits, std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
  static constexpr std::string_view name =
      detail::by_width<Bits, std::string_view>({"I4", "I8", "I16", "I32", "I64"});
  static constexpr int bits = Bits;
  static constexpr int width_rank = Bits;
  static constexpr DTypeTag tag = detail::library_tag(detail::by_width<Bits>({2, 4, 6, 8, 10}));
  static constexpr NumberFacts number = integer_facts(Bits, true);
};

template <int Bits>
  requires detail::IntWidth<Bits>
struct UInt {
  using Family = family::UInt;
  using Element = detail::IntElement<UInt, Bits, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
  static constexpr std::string_view name =
      detail::by_width<Bits, std::string_view>({"U4", "U8", "U16", "U32", "U64"});
  static constexpr int bits = Bits;
  static constexpr int width_rank = Bits;
  static constexpr DTypeTag tag = detail::library_tag(detail::by_width<Bits>({3, 5, 7, 9, 11}));
  static constexpr NumberFacts number = integer_facts(Bits, false);
};

template <int Bits>
  requires(Bits == 16 || Bits == 32 || Bits == 64)
struct Float {
  using Family = family::Float;
  using Element =
      std::conditional_t<Bits == 16, SmallFloat<Float>, std::conditional_t<Bits == 32, float, double>>;
  static constexpr std::string_view name = Bits == 16 ? "F16" : Bits == 32 ? "F32" : "F64";
  static constexpr int bits = Bits;
  static constexpr int width_rank = Bits;
  static constexpr DTypeTag tag = detail::library_tag(Bits == 16 ? 12 : Bits == 32 ? 14 : 15);
  static constexpr FloatLayout layout = Bits == 16   ? FloatLayout{5, 10, 15, FloatLayout::Specials::ieee}
                                        : Bits == 32 ? FloatLayout{8, 23, 127, FloatLayout::Specials::ieee}
                                                     : FloatLayout{11, 52, 1023, FloatLayout::Specials::ieee};
  static constexpr NumberFacts number = number_facts(layout);
};

template <int Bits>
  requires(Bits == 16)
struct BFloat {
  using Family = family::BFloat;
  using Element = SmallFloat<BFloat>;
  static constexpr std::string_view name = "BF16";
  static constexpr int bits = Bits;
  static constexpr int width_rank = Bits;
  static constexpr DTypeTag tag = detail::library_tag(13);
  static constexpr FloatLayout layout{8, 7, 127, FloatLayout::Specials::ieee};
  static constexpr NumberFacts number = number_facts(layout);
};

/// Two floats, the real part first.
template <int Bits>
  requires(Bits == 64)
struct Complex {
  using Family = family::Complex;
  using Element = std::complex<float>;
  static constexpr std::string_view name = "C64";
  static constexpr int bits = Bits;
  static constexpr int width_rank = Bits;
  static constexpr DTypeTag tag = detail::library_tag(16);
  static constexpr NumberFacts number = [] {
    NumberFacts facts = Float<32>::number;
    facts.kind = NumberFacts::Kind::complex;
    return facts;
  }();
};

/// Floating-point numbers of 8 bits and fewer.
template <int ExponentBits, int MantissaBits, FloatLayout::Specials S>
  requires detail::IsMiniFloat<ExponentBits, MantissaBits, S>
struct MiniFloat {
  using Family = family::MiniFloat;
  using Element = SmallFloat<MiniFloat>;
  static constexpr std::string_view name = detail::mini_float(ExponentBits, MantissaBits, S).name;
  static constexpr FloatLayout layout{
      ExponentBits, MantissaBits,
      (1 << (ExponentBits - 1)) - (S == FloatLayout::Specials::nan_at_minus_zero ? 0 : 1), S};
  static constexpr int bits = layout.bits();
  static constexpr int width_rank = bits;
  static constexpr DTypeTag tag = detail::library_tag(detail::mini_float(ExponentBits, MantissaBits, S).tag);
  static constexpr NumberFacts number = number_facts(layout);
};

using I4 = Int<4>;
using I8 = Int<8>;
using I16 = Int<16>;
using I32 = Int<32>;
using I64 = Int<64>;
using U4 = UInt<4>;
using U8 = UInt<8>;
using U16 = UInt<16>;
using U32 = UInt<32>;
using U64 = UInt<64>;
using F16 = Float<16>;
using F32 = Float<32>;
using F64 = Float<64>;
using BF16 = BFloat<16>;
using C64 = Complex<64>;
using F4 = MiniFloat<2, 1, FloatLayout::Specials::none>;
using F6_E2M3 = MiniFloat<2, 3, FloatLayout::Specials::none>;
using F6_E3M2 = MiniFloat<3, 2, FloatLayout::Specials::none>;
using F8_E4M3 = MiniFloat<4, 3, FloatLayout::Specials::nan_at_all_ones>;
using F8_E5M2 = MiniFloat<5, 2, FloatLayout::Specials::ieee>;
using F8_E8M0 = MiniFloat<8, 0, FloatLayout::Specials::scale>;
using F8_E4M3FNUZ = MiniFloat<4, 3, FloatLayout::Specials::nan_at_minus_zero>;
using F8_E5M2FNUZ = MiniFloat<5, 2, FloatLayout::Specials::nan_at_minus_zero>;

template <IsDType... Ds>
struct DTypeList {
  static constexpr int size = sizeof...(Ds);
};

/// Every dtype of the library, in the order in which `Common` searches: narrow before wide, and integers
/// before floating-point of the same width.
using AllDTypes = DTypeList<Bool, U4, I4, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E4M3, F8_E5M2, F8_E4M3FNUZ,
                            F8_E5M2FNUZ, F8_E8M0, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64, C64>;

}  // namespace ht::inline v1
