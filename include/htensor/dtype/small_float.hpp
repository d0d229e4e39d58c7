// One element of a floating-point dtype of 16 bits or fewer: the stored bits and nothing else.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <concepts>
#include <cstdint>
#include <htensor/dtype/dtype_of.hpp>
#include <htensor/dtype/float_code.hpp>
#include <htensor/dtype/relations.hpp>
#include <type_traits>

namespace ht::inline v1 {

template <class D>
class SmallFloat {
  static_assert(D::bits == D::layout.bits() && D::bits <= 16, "the layout has the dtype's width");
  static_assert(D::layout.mantissa_bits > 0 || D::layout.specials != Specials::ieee,
                "without a mantissa there is no code for NaN beside infinity");

 public:
  using Bits = std::conditional_t<D::bits <= 8, std::uint8_t, std::uint16_t>;

  constexpr SmallFloat() noexcept = default;

  template <class T>
    requires detail::NativeFloat<T> || detail::NativeInt<T>
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

  /// Another small float: exact where it can be, else rounded once.
  template <class Other>
  constexpr explicit(!UpcastableTo<D, Other>) operator SmallFloat<Other>() const noexcept {
    using OtherBits = typename SmallFloat<Other>::Bits;
    const auto parts = detail::take_apart(D::layout, bits_);
    return SmallFloat<Other>::from_bits(static_cast<OtherBits>(detail::put_together(Other::layout, parts)));
  }

  // As numbers: NaN is unequal to itself, -0 equals +0.
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

  // Few enough to be looked up.
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

}  // namespace ht::inline v1
