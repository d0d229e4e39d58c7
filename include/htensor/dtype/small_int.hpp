// One element of a 4-bit integer dtype.
#pragma once

#include <compare>
#include <cstdint>
#include <htensor/dtype/dtype_of.hpp>
#include <htensor/dtype/float_code.hpp>
#include <htensor/dtype/relations.hpp>
#include <utility>

namespace ht::inline v1 {

/// A 4-bit integer. From numbers it rounds to nearest even and saturates; NaN becomes 0.
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

  template <class T>
    requires detail::NativeFloat<T> || detail::NativeInt<T>
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

}  // namespace ht::inline v1
