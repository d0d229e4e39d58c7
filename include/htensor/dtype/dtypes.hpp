// The dtypes: empty types with static properties. All 22 dtypes of safetensors by their names, and I4, U4.
//
// A dtype of your own is a struct like these with a tag from `user_tag`; examples/consumer has one.
// The tags are written into files (spec/ht-format.md) and never change.
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/dtype/facts.hpp>
#include <string_view>
#include <type_traits>

namespace ht::inline v1 {

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

/// A number dtype with a rank by width within its family. `Bool` has no rank.
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

// The choice for a width: `choices` are for 4, 8, 16, 32 and 64 bits.
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
  Specials specials;
  std::string_view name;
  int tag;
};

inline constexpr MiniFloatRow mini_floats[] = {
    {2, 1, Specials::none, "F4", 17},
    {2, 3, Specials::none, "F6_E2M3", 18},
    {3, 2, Specials::none, "F6_E3M2", 19},
    {4, 3, Specials::nan_at_all_ones, "F8_E4M3", 20},
    {5, 2, Specials::ieee, "F8_E5M2", 21},
    {8, 0, Specials::scale, "F8_E8M0", 22},
    {4, 3, Specials::nan_at_minus_zero, "F8_E4M3FNUZ", 23},
    {5, 2, Specials::nan_at_minus_zero, "F8_E5M2FNUZ", 24},
};

// The row of that layout, or a row with an empty name.
consteval MiniFloatRow mini_float(int exponent_bits, int mantissa_bits, Specials specials) {
  for (const auto& row : mini_floats) {
    if (row.exponent_bits == exponent_bits && row.mantissa_bits == mantissa_bits &&
        row.specials == specials) {
      return row;
    }
  }
  return {};
}

template <int ExponentBits, int MantissaBits, Specials S>
concept IsMiniFloat = !mini_float(ExponentBits, MantissaBits, S).name.empty();

}  // namespace detail

/// A boolean in a byte. Its values are the numbers 0 and 1. It has no width rank.
struct Bool {
  using Family = family::Bool;
  using Element = Boolean;
  static constexpr std::string_view name = "BOOL";
  static constexpr int bits = 8;
  static constexpr DTypeTag tag = detail::library_tag(1);
  static constexpr NumberFacts number{.kind = NumberKind::boolean, .digits = 1, .largest = {1, 0}};
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
  static constexpr FloatLayout layout = Bits == 16   ? FloatLayout{5, 10, 15, Specials::ieee}
                                        : Bits == 32 ? FloatLayout{8, 23, 127, Specials::ieee}
                                                     : FloatLayout{11, 52, 1023, Specials::ieee};
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
  static constexpr FloatLayout layout{8, 7, 127, Specials::ieee};
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
    facts.kind = NumberKind::complex;
    return facts;
  }();
};

/// Floating-point numbers of 8 bits and fewer.
template <int ExponentBits, int MantissaBits, Specials S>
  requires detail::IsMiniFloat<ExponentBits, MantissaBits, S>
struct MiniFloat {
  using Family = family::MiniFloat;
  using Element = SmallFloat<MiniFloat>;
  static constexpr std::string_view name = detail::mini_float(ExponentBits, MantissaBits, S).name;
  static constexpr FloatLayout layout{
      ExponentBits, MantissaBits, (1 << (ExponentBits - 1)) - (S == Specials::nan_at_minus_zero ? 0 : 1), S};
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
using F4 = MiniFloat<2, 1, Specials::none>;
using F6_E2M3 = MiniFloat<2, 3, Specials::none>;
using F6_E3M2 = MiniFloat<3, 2, Specials::none>;
using F8_E4M3 = MiniFloat<4, 3, Specials::nan_at_all_ones>;
using F8_E5M2 = MiniFloat<5, 2, Specials::ieee>;
using F8_E8M0 = MiniFloat<8, 0, Specials::scale>;
using F8_E4M3FNUZ = MiniFloat<4, 3, Specials::nan_at_minus_zero>;
using F8_E5M2FNUZ = MiniFloat<5, 2, Specials::nan_at_minus_zero>;

template <IsDType... Ds>
struct DTypeList {
  static constexpr int size = sizeof...(Ds);
};

/// Every dtype of the library, in the order in which `Common` searches: narrow before wide, and integers
/// before floating-point of the same width.
using AllDTypes = DTypeList<Bool, U4, I4, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E4M3, F8_E5M2, F8_E4M3FNUZ,
                            F8_E5M2FNUZ, F8_E8M0, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64, C64>;

}  // namespace ht::inline v1
