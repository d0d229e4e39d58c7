// One element of BOOL.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/dtype/dtype_of.hpp>

namespace ht::inline v1 {

/// A byte that is a truth value: 0 is false and every other byte true, as files may hold any byte and
/// a C++ `bool` may not.
class Boolean {
 public:
  constexpr Boolean() noexcept = default;
  template <std::same_as<bool> T>
  constexpr Boolean(T value) noexcept : byte_(value ? 1 : 0) {}
  template <class T>
    requires detail::NativeFloat<T> || detail::NativeInt<T>
  constexpr explicit Boolean(T value) noexcept : byte_(value != T{0} ? 1 : 0) {}

  [[nodiscard]] static constexpr Boolean from_bits(std::uint8_t byte) noexcept {
    Boolean value;
    value.byte_ = byte;
    return value;
  }
  [[nodiscard]] constexpr std::uint8_t bits() const noexcept { return byte_; }

  // For bool alone: a plain operator would let it slip on into any number.
  template <std::same_as<bool> T>
  constexpr operator T() const noexcept {
    return byte_ != 0;
  }
  template <class T>
    requires detail::NativeFloat<T> || detail::NativeInt<T>
  constexpr explicit operator T() const noexcept {
    return byte_ != 0 ? T{1} : T{0};
  }

 private:
  std::uint8_t byte_ = 0;
};

}  // namespace ht::inline v1
