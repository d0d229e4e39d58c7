// Element types of dtypes without a C++ type: F16, BF16, the 8-, 6- and 4-bit dtypes, and BOOL.
//
// An object holds exactly the stored bits, so a mapped file can be read as an array of them. An element
// converts implicitly if UpcastableTo holds (F16 to float), else explicitly to float and double (BF16 to
// float), by the rules of float_code.hpp. Elements have no arithmetic: convert them first.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <complex>
#include <concepts>
#include <cstdint>
#include <htensor/dtype/float_code.hpp>
#include <htensor/dtype/relations.hpp>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

namespace detail {

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

template <class T>
concept NativeFloat = std::same_as<T, float> || std::same_as<T, double>;

template <class T>
concept NativeInt = std::integral<T> && !std::same_as<T, bool>;

template <class T>
concept NativeNumber = NativeFloat<T> || NativeInt<T>;

}  // namespace detail

/// The dtype that has T as its Element: F32 for `float`.
template <class T>
using DTypeOf = typename detail::DTypeOf<T>::type;

/// A boolean in a byte: 0 is false, every other byte is true. Files may contain any byte, which a C++ `bool`
/// must not.
class Boolean {
 public:
  constexpr Boolean() noexcept = default;
  template <std::same_as<bool> T>
  constexpr Boolean(T value) noexcept : byte_(value ? 1 : 0) {}
  template <detail::NativeNumber T>
  constexpr explicit Boolean(T value) noexcept : byte_(value != T{0} ? 1 : 0) {}

  [[nodiscard]] static constexpr Boolean from_bits(std::uint8_t byte) noexcept {
    Boolean value;
    value.byte_ = byte;
    return value;
  }
  [[nodiscard]] constexpr std::uint8_t bits() const noexcept { return byte_; }

  // A template, because a plain operator bool would allow implicit conversion to any number.
  template <std::same_as<bool> T>
  constexpr operator T() const noexcept {
    return byte_ != 0;
  }
  template <detail::NativeNumber T>
  constexpr explicit operator T() const noexcept {
    return byte_ != 0 ? T{1} : T{0};
  }

 private:
  std::uint8_t byte_ = 0;
};

/// One element of a floating-point dtype of 16 bits or fewer.
template <class D>
class SmallFloat {
  static_assert(D::bits == D::layout.bits() && D::bits <= 16, "the layout has the dtype's width");
  static_assert(D::layout.mantissa_bits > 0 || D::layout.specials != Specials::ieee,
                "without a mantissa there is no code for NaN beside infinity");

 public:
  using Bits = std::conditional_t<D::bits <= 8, std::uint8_t, std::uint16_t>;

  constexpr SmallFloat() noexcept = default;

  template <detail::NativeNumber T>
  constexpr explicit SmallFloat(T value) noexcept
      : bits_(static_cast<Bits>(detail::put_together(D::layout, detail::take_apart(value)))) {}

  [[nodiscard]] static constexpr SmallFloat from_bits(Bits bits) noexcept {
    SmallFloat value;
    value.bits_ = static_cast<Bits>(bits & ((1U << D::bits) - 1U));
    return value;
  }
  [[nodiscard]] constexpr Bits bits() const noexcept { return bits_; }

  template <detail::NativeFloat T>
  constexpr explicit(!UpcastableTo<D, DTypeOf<T>>) operator T() const noexcept {
    if constexpr (D::bits <= 8) {
      return values<T>[bits_ & code_mask];
    } else if constexpr (std::same_as<T, float> && is_top_of_float) {
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
    } else {
      return detail::to_native<T>(detail::take_apart(D::layout, bits_));
    }
  }

  /// Converts to another small float: exact if possible, else rounded once.
  template <class Other>
  constexpr explicit(!UpcastableTo<D, Other>) operator SmallFloat<Other>() const noexcept {
    using OtherBits = typename SmallFloat<Other>::Bits;
    const auto parts = detail::take_apart(D::layout, bits_);
    return SmallFloat<Other>::from_bits(static_cast<OtherBits>(detail::put_together(Other::layout, parts)));
  }

  // Compare as numbers: NaN is unequal to itself, -0 equals +0.
  friend constexpr bool operator==(SmallFloat a, SmallFloat b) noexcept {
    return static_cast<double>(a) == static_cast<double>(b);
  }
  friend constexpr std::partial_ordering operator<=>(SmallFloat a, SmallFloat b) noexcept {
    return static_cast<double>(a) <=> static_cast<double>(b);
  }

 private:
  static constexpr bool is_top_of_float = D::layout.exponent_bits == 8 && D::layout.mantissa_bits == 7 &&
                                          D::layout.bias == 127 && D::layout.specials == Specials::ieee;
  static constexpr unsigned code_mask = (1U << std::min(D::bits, 8)) - 1U;

  // The value of each code, for dtypes of 8 bits or fewer.
  template <class T>
  static constexpr auto values = [] {
    std::array<T, code_mask + 1> table{};
    for (unsigned code = 0; code <= code_mask; ++code) {
      table[code] = detail::to_native<T>(detail::take_apart(D::layout, code));
    }
    return table;
  }();

  Bits bits_ = 0;
};

/// A 4-bit integer. Conversion from a number rounds to nearest even and saturates; NaN becomes 0.
template <class D>
class SmallInt {
 public:
  using Bits = std::uint8_t;
  static constexpr bool has_sign = D::number.most_negative.significand != 0;
  static constexpr int lowest = has_sign ? -(1 << (D::bits - 1)) : 0;
  static constexpr int highest = (1 << D::number.digits) - 1;

  constexpr SmallInt() noexcept = default;

  template <detail::NativeInt T>
  constexpr explicit SmallInt(T value) noexcept
      : bits_(to_bits(std::cmp_less(value, lowest)       ? lowest
                      : std::cmp_greater(value, highest) ? highest
                                                         : static_cast<int>(value))) {}

  template <detail::NativeFloat T>
  constexpr explicit SmallInt(T value) noexcept : bits_(to_bits(nearest(value))) {}

  [[nodiscard]] static constexpr SmallInt from_bits(Bits bits) noexcept {
    SmallInt value;
    value.bits_ = bits & mask;
    return value;
  }
  [[nodiscard]] constexpr Bits bits() const noexcept { return bits_; }

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
  template <class T>
  [[nodiscard]] static constexpr int nearest(T value) noexcept {
    if (value != value) return 0;
    if (value <= static_cast<T>(lowest)) return lowest;
    if (value >= static_cast<T>(highest)) return highest;
    const auto parts = detail::take_apart(value);
    const auto magnitude = static_cast<int>(detail::shift_right_rounded(parts.significand, -parts.exponent));
    return parts.negative ? -magnitude : magnitude;
  }

  Bits bits_ = 0;
};

template <class T>
inline constexpr bool is_plain_byte_type = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>;

static_assert(sizeof(SmallFloat<F16>) == 2 && sizeof(SmallFloat<BF16>) == 2);
static_assert(sizeof(SmallFloat<F8_E4M3>) == 1 && sizeof(SmallFloat<F4>) == 1);
static_assert(sizeof(SmallInt<I4>) == 1 && sizeof(Boolean) == 1 && sizeof(C64::Element) == 8);
static_assert(is_plain_byte_type<SmallFloat<BF16>> && is_plain_byte_type<SmallInt<I4>> &&
              is_plain_byte_type<Boolean>);

}  // namespace ht::inline v1
