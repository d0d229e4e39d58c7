// Overflow-checked arithmetic on numbers from files: nullopt if the result does not fit its type.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

namespace ht::inline v1::checked {

// `bool` and character types are not numbers here.
template <class T>
concept Number =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
    !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

template <Number T>
[[nodiscard]] constexpr std::optional<T> add(T a, std::type_identity_t<T> b) noexcept {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

template <Number T>
[[nodiscard]] constexpr std::optional<T> subtract(T a, std::type_identity_t<T> b) noexcept {
  T difference{};
  if (__builtin_sub_overflow(a, b, &difference)) return std::nullopt;
  return difference;
}

template <Number T>
[[nodiscard]] constexpr std::optional<T> multiply(T a, std::type_identity_t<T> b) noexcept {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The same number in another type; nullopt if it does not fit.
template <Number To, Number From>
[[nodiscard]] constexpr std::optional<To> narrow(From value) noexcept {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

/// The smallest multiple of `alignment` not below `value`. nullopt on overflow or if `alignment` is not a
/// power of two.
[[nodiscard]] constexpr std::optional<std::uint64_t> align_up(std::uint64_t value,
                                                              std::uint64_t alignment) noexcept {
  if (!std::has_single_bit(alignment)) return std::nullopt;
  const auto raised = add(value, alignment - 1);
  if (!raised) return std::nullopt;
  return *raised & ~(alignment - 1);
}

/// The number of bytes for `bits` bits, rounded up. Cannot overflow.
[[nodiscard]] constexpr std::uint64_t bits_to_bytes(std::uint64_t bits) noexcept {
  return bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

/// Whether [offset, offset + bytes) is inside a file or span of `total` bytes.
[[nodiscard]] constexpr bool range_fits(std::uint64_t offset, std::uint64_t bytes,
                                        std::uint64_t total) noexcept {
  return offset <= total && bytes <= total - offset;
}

}  // namespace ht::inline v1::checked
