// The dtypes: empty types with static properties. All 22 dtypes of safetensors by their names, and I4, U4.
//
// Dtypes have no objects and no state, so ownership and threads do not matter here: every function is
// constexpr and has no side effects. The tags are written into files (spec/ht-format.md) and never change.
//
//   static_assert(ht::F16::bits == 16 && ht::F16::name == "F16");
//   static_assert(std::same_as<ht::F16::Element, ht::SmallFloat<ht::F16>> && sizeof(ht::F16::Element) == 2);
//   static_assert(ht::F16::layout.exponent_bits == 5 && ht::F16::number.digits == 11);
//   template <ht::IsDType D> void print() { std::puts(D::name.data()); }       // dtypes are arguments
//
//   dtype         tag  bits  element                 values
//   Bool            1     8  Boolean                 0 and 1
//   I4, U4       2, 3     4  SmallInt<D>             -8 to 7, 0 to 15
//   I8, U8       4, 5     8  std::int8_t, uint8_t    all integers of the width, in two's complement
//   I16, U16     6, 7    16  std::int16_t, uint16_t  the same
//   I32, U32     8, 9    32  std::int32_t, uint32_t  the same
//   I64, U64   10, 11    64  std::int64_t, uint64_t  the same
//   F16            12    16  SmallFloat<F16>         11 digits, up to 65504; infinities, NaNs
//   BF16           13    16  SmallFloat<BF16>        8 digits, up to 3.39e38; infinities, NaNs
//   F32            14    32  float                   24 digits
//   F64            15    64  double                  53 digits
//   C64            16    64  std::complex<float>     the real part first
//   F4             17     4  SmallFloat<F4>          2 digits, up to 6; neither infinity nor NaN
//   F6_E2M3        18     6  SmallFloat<F6_E2M3>     4 digits, up to 7.5; neither infinity nor NaN
//   F6_E3M2        19     6  SmallFloat<F6_E3M2>     3 digits, up to 28; neither infinity nor NaN
//   F8_E4M3        20     8  SmallFloat<F8_E4M3>     4 digits, up to 448; NaNs, no infinity
//   F8_E5M2        21     8  SmallFloat<F8_E5M2>     3 digits, up to 57344; infinities, NaNs
//   F8_E8M0        22     8  SmallFloat<F8_E8M0>     2^-127 to 2^127; one NaN, neither zero nor sign
//   F8_E4M3FNUZ    23     8  SmallFloat<…>           4 digits, up to 240; one NaN, no infinity, no -0
//   F8_E5M2FNUZ    24     8  SmallFloat<…>           3 digits, up to 57344; one NaN, no infinity, no -0
//
// A dtype of your own is a struct with the same members:
//
//   struct F8_E3M4 {                                        // 3 exponent and 4 mantissa bits
//     using Family = ht::family::MiniFloat;
//     using Element = ht::SmallFloat<F8_E3M4>;
//     static constexpr std::string_view name = "F8_E3M4";
//     static constexpr int bits = 8;
//     static constexpr ht::DTypeTag tag = ht::user_tag(0);  // 0 to 63
//     static constexpr ht::FloatLayout layout{3, 4, 3, ht::FloatLayout::Specials::ieee};
//     static constexpr ht::NumberFacts number = ht::number_facts(layout);
//   };
//
// `Tensor<F8_E3M4, Rank<2>>` then works as for a dtype of the library, and casts that lose no value compile.
// Only programs that define the same dtype with the same tag can read the elements of its tensors in a file.
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
/// `dtype_info<D>().tag` has the tag of a dtype, and `visit_dtype` converts a tag to a dtype (relations.hpp).
enum class DTypeTag : std::uint8_t { invalid = 0 };

/// The first tag of user-defined dtypes. The library never assigns tags from here on.
inline constexpr std::uint8_t first_user_tag = 192;

/// The tag of the user-defined dtype number `n`, from 0 to 63. Another number does not compile. A program
/// chooses the numbers of its own dtypes, and uses each number once.
[[nodiscard]] consteval DTypeTag user_tag(int n) {
  if (n < 0 || n > 255 - first_user_tag) throw "the number of a user-defined dtype is 0 to 63";
  return static_cast<DTypeTag>(first_user_tag + n);
}

/// The finite values of a dtype: zero if `has_zero`, and every v = ±m × 2^e with 1 ≤ m < 2^digits, e ≥
/// lowest_exponent and -largest_negative ≤ v ≤ largest; both limits are magnitudes. Integers have
/// lowest_exponent = 0. The facts of a complex dtype describe each of its two parts.
///
/// A value without pointers. `integer_facts` and `number_facts` make it for the usual formats; a dtype with
/// other values fills the members:
///
///   static constexpr ht::NumberFacts number{.digits = 5, .largest = {31, 0}};     // 0 to 31
struct NumberFacts {
  /// The kind of number. Sums and maxima of tensors require `integer` or `floating`.
  enum class Kind : std::uint8_t { boolean, integer, floating, complex };

  /// significand × 2^exponent, exactly.
  struct Magnitude {
    std::uint64_t significand = 0;
    int exponent = 0;

    /// Compares the numbers, so 1 × 2^1 equals 2 × 2^0. The comparison is exact.
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
  /// The number of binary digits of m, including the implicit first digit of a floating-point number.
  int digits = 0;
  /// The exponent of the last digit of the smallest number: every value is a multiple of 2^lowest_exponent.
  int lowest_exponent = 0;
  /// The largest finite value, and the magnitude of the most negative one; 0 for dtypes without a sign.
  Magnitude largest{};
  Magnitude largest_negative{};
  /// Whether 0 is a value, and whether -0 is another value.
  bool has_zero = true;
  bool has_negative_zero = false;
};

/// Whether every finite value of `inner` is a value of `outer`. The sign of a zero is part of its value. NaNs
/// and infinities do not count.
[[nodiscard]] constexpr bool holds_every_value(const NumberFacts& outer, const NumberFacts& inner) noexcept {
  return (outer.kind == NumberFacts::Kind::complex || inner.kind != NumberFacts::Kind::complex) &&
         outer.digits >= inner.digits && outer.lowest_exponent <= inner.lowest_exponent &&
         outer.largest >= inner.largest && outer.largest_negative >= inner.largest_negative &&
         (outer.has_zero || !inner.has_zero) && (outer.has_negative_zero || !inner.has_negative_zero);
}

/// The facts of an integer dtype in two's complement. `bits` includes the sign bit: 2 to 64 with a sign, 1 to
/// 64 without.
[[nodiscard]] constexpr NumberFacts integer_facts(int bits, bool has_sign) noexcept {
  const int digits = has_sign ? bits - 1 : bits;
  return {.kind = NumberFacts::Kind::integer,
          .digits = digits,
          .largest = {~std::uint64_t{0} >> (64 - digits), 0},
          .largest_negative = has_sign ? NumberFacts::Magnitude{1, digits} : NumberFacts::Magnitude{}};
}

/// The bit fields of a floating-point number: sign, exponent, mantissa, from the most significant bit.
///
/// Two formats of one width differ in how they divide the bits, and in which codes are not numbers:
///
///   static_assert(ht::BF16::layout.exponent_bits == 8 && ht::BF16::layout.mantissa_bits == 7);
///   static_assert(ht::BF16::layout.bits() == 16 && ht::BF16::layout.bias == 127);
///   static_assert(ht::F8_E4M3::layout.largest_code() == 0x7E);      // 448; 0x7F is NaN
///
/// A layout is a value that exists at compile time; the conversions of scalar.hpp work for every layout of at
/// most 64 bits.
struct FloatLayout {
  /// The special codes of a floating-point layout.
  enum class Specials : std::uint8_t {
    ieee,               // exponent all ones: infinities and NaNs
    nan_at_all_ones,    // "FN": the largest code of each sign is NaN, no infinity
    nan_at_minus_zero,  // "FNUZ": the code of -0 is the only NaN, no infinity, no -0
    none,               // every code is a finite number
    scale,              // E8M0: powers of two, no sign, no zero, all ones is NaN
  };

  /// The widths of the fields, and the number that is subtracted from the exponent field: the value of a
  /// normal number is ±1.mantissa × 2^(field - bias).
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  /// Whether the most significant bit is a sign.
  [[nodiscard]] constexpr bool has_sign() const noexcept { return specials != Specials::scale; }
  /// The width of a number: the sum of its fields.
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
  /// The magnitude of a finite code, which has no sign bit. An exponent field of 0 means a subnormal number,
  /// which has no implicit digit.
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
/// elements are packed (see packed.hpp). The concept checks that the members exist, not that they agree:
/// `bits` must be the width of an Element, and `tag` must be unique in a program. A dtype without numbers,
/// such as a colour, needs no more than these members.
template <class T>
concept IsDType = std::is_empty_v<T> && std::same_as<T, std::remove_cv_t<T>> && requires {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::bits } -> std::convertible_to<int>;
  { T::tag } -> std::convertible_to<DTypeTag>;
  typename T::Family;
  typename T::Element;
};

/// A dtype whose elements are numbers, described by `NumberFacts`. Conversions, arithmetic and the relations
/// of relations.hpp require the facts.
template <class T>
concept IsNumber = IsDType<T> && requires {
  { T::number } -> std::convertible_to<const NumberFacts&>;
};

/// A dtype with addition, subtraction and multiplication: integers, floating-point and complex numbers.
template <class T>
concept IsArithmetic = IsNumber<T> && T::number.kind != NumberFacts::Kind::boolean;

/// The families. A user's dtype may use one of these or define its own. `upcast` and implicit conversions of
/// scalars stay within a family; `cast` does not.
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

// Tags of the library; 1 to 24 are assigned, and the next dtype takes 25.
constexpr DTypeTag library_tag(int number) { return static_cast<DTypeTag>(number); }

// The widths for which Int and UInt exist; others do not compile.
template <int Bits>
concept IntWidth = Bits == 4 || Bits == 8 || Bits == 16 || Bits == 32 || Bits == 64;

// Selects the choice for a width; `choices` are for 4, 8, 16, 32 and 64 bits.
template <int Bits, class T, std::size_t N>
constexpr T by_width(const T (&choices)[N]) {
  return choices[std::bit_width(static_cast<unsigned>(Bits)) - 3];
}

// The C++ integer of the width; 4-bit integers have a class of the library.
template <class D, int Bits, class Native8, class Native16, class Native32, class Native64>
using IntElement = std::conditional_t<
    Bits == 4, SmallInt<D>,
    std::conditional_t<
        Bits == 8, Native8,
        std::conditional_t<Bits == 16, Native16, std::conditional_t<Bits == 32, Native32, Native64>>>>;

// The floating-point formats of 8 bits and fewer. MiniFloat finds its name and its tag in this table, so that
// a layout that is not listed does not compile.
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

// A format of the table.
template <int ExponentBits, int MantissaBits, FloatLayout::Specials S>
concept IsMiniFloat = !mini_float(ExponentBits, MantissaBits, S).name.empty();

}  // namespace detail

/// A boolean in a byte. Its values are the numbers 0 and 1. Every stored byte except 0 is true; conversions
/// from numbers write 0 or 1.
struct Bool {
  using Family = family::Bool;
  using Element = Boolean;
  static constexpr std::string_view name = "BOOL";
  static constexpr int bits = 8;
  static constexpr DTypeTag tag = detail::library_tag(1);
  static constexpr NumberFacts number{.kind = NumberFacts::Kind::boolean, .digits = 1, .largest = {1, 0}};
};

/// Signed integers in two's complement, of 4, 8, 16, 32 or 64 bits. Arithmetic of tensors wraps around;
/// conversions saturate.
template <int Bits>
  requires detail::IntWidth<Bits>
struct Int {
  using Family = family::Int;
  using Element = detail::IntElement<Int, Bits, std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
  static constexpr std::string_view name =
      detail::by_width<Bits, std::string_view>({"I4", "I8", "I16", "I32", "I64"});
  static constexpr int bits = Bits;
  static constexpr DTypeTag tag = detail::library_tag(detail::by_width<Bits>({2, 4, 6, 8, 10}));
  static constexpr NumberFacts number = integer_facts(Bits, true);
};

/// Unsigned integers of the same widths.
template <int Bits>
  requires detail::IntWidth<Bits>
struct UInt {
  using Family = family::UInt;
  using Element = detail::IntElement<UInt, Bits, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
  static constexpr std::string_view name =
      detail::by_width<Bits, std::string_view>({"U4", "U8", "U16", "U32", "U64"});
  static constexpr int bits = Bits;
  static constexpr DTypeTag tag = detail::library_tag(detail::by_width<Bits>({3, 5, 7, 9, 11}));
  static constexpr NumberFacts number = integer_facts(Bits, false);
};

/// IEEE 754 binary16, binary32 and binary64. F16 has an element class; F32 and F64 are `float` and `double`.
template <int Bits>
  requires(Bits == 16 || Bits == 32 || Bits == 64)
struct Float {
  using Family = family::Float;
  using Element =
      std::conditional_t<Bits == 16, SmallFloat<Float>, std::conditional_t<Bits == 32, float, double>>;
  static constexpr std::string_view name = Bits == 16 ? "F16" : Bits == 32 ? "F32" : "F64";
  static constexpr int bits = Bits;
  static constexpr DTypeTag tag = detail::library_tag(Bits == 16 ? 12 : Bits == 32 ? 14 : 15);
  static constexpr FloatLayout layout = Bits == 16   ? FloatLayout{5, 10, 15, FloatLayout::Specials::ieee}
                                        : Bits == 32 ? FloatLayout{8, 23, 127, FloatLayout::Specials::ieee}
                                                     : FloatLayout{11, 52, 1023, FloatLayout::Specials::ieee};
  static constexpr NumberFacts number = number_facts(layout);
};

/// The upper half of a binary32 number: the range of F32 with 8 digits. Another family than Float, because
/// F16 and BF16 do not hold each other's values.
template <int Bits>
  requires(Bits == 16)
struct BFloat {
  using Family = family::BFloat;
  using Element = SmallFloat<BFloat>;
  static constexpr std::string_view name = "BF16";
  static constexpr int bits = Bits;
  static constexpr DTypeTag tag = detail::library_tag(13);
  static constexpr FloatLayout layout{8, 7, 127, FloatLayout::Specials::ieee};
  static constexpr NumberFacts number = number_facts(layout);
};

/// Two floats, the real part first. NumberFacts describe each part. A real dtype casts to C64 with an
/// imaginary part of 0; C64 does not cast to a real dtype.
template <int Bits>
  requires(Bits == 64)
struct Complex {
  using Family = family::Complex;
  using Element = std::complex<float>;
  static constexpr std::string_view name = "C64";
  static constexpr int bits = Bits;
  static constexpr DTypeTag tag = detail::library_tag(16);
  static constexpr NumberFacts number = [] {
    NumberFacts facts = Float<32>::number;
    facts.kind = NumberFacts::Kind::complex;
    return facts;
  }();
};

/// Floating-point numbers of 8 bits and fewer. The template arguments are the bit fields and the special
/// codes; the aliases below are the formats that exist. Elements of 6 and 4 bits are packed (packed.hpp).
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
  static constexpr DTypeTag tag = detail::library_tag(detail::mini_float(ExponentBits, MantissaBits, S).tag);
  static constexpr NumberFacts number = number_facts(layout);
};

/// The names of the dtypes, as in safetensors and in error messages. `Bool` is spelled "BOOL" there.
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

/// A list of dtypes as a type, for devices that state what they store and for code that visits all dtypes.
template <IsDType... Ds>
struct DTypeList {
  static constexpr int size = sizeof...(Ds);
};

/// Every dtype of the library, in the order in which `Common` searches: Bool, then narrow before wide, and
/// integers before floating-point of the same width. User-defined dtypes are not in the list; functions take
/// them as further arguments.
using AllDTypes = DTypeList<Bool, U4, I4, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E4M3, F8_E5M2, F8_E4M3FNUZ,
                            F8_E5M2FNUZ, F8_E8M0, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64, C64>;

}  // namespace ht::inline v1
