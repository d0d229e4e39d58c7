// Spans of bytes, loads and stores of numbers in an explicit byte order, and overflow-checked arithmetic.
//
//   const auto field = ht::part(file, 8, 4);                         // nullopt if the file is shorter
//   if (field) use(ht::load_le<std::uint32_t>(*field));
//   const auto end = ht::checked::add(offset, bytes);                // nullopt on overflow
//
// `Bytes` and `MutableBytes` are views: they own no memory. The functions keep no state, so many threads may
// call them at once.
//
// Lifetime: a span is valid as long as the memory that it refers to. `part` and `bytes_of` return spans of
// the memory of their argument, so they must not outlive the array, the mapping or the string behind the
// argument.
//
// The header has three groups. `checked::` is arithmetic for numbers from files, whose sums and products may
// overflow: a result that does not fit is nullopt, never undefined behaviour. Parsers cut ranges out of a
// file with `part`, which checks each range. `load` and `store` convert between bytes and numbers in an order
// that the file format states, on machines of either byte order. No function allocates memory or throws.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

// Overflow-checked arithmetic on numbers from files: nullopt if the result does not fit its type.

namespace ht::inline v1::checked {

// `bool` and character types are not numbers here.
template <class T>
concept Number =
    std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
    !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

// The type of the first argument is the type of the result; the second argument is converted to it by the
// usual rules, so pass numbers of one type:
//
//   const auto bytes = ht::checked::multiply(rows, row_bytes);       // both std::uint64_t
//   const auto end = bytes ? ht::checked::add(offset, *bytes) : std::nullopt;

/// Returns a + b; nullopt if the sum does not fit T.
template <Number T>
[[nodiscard]] constexpr std::optional<T> add(T a, std::type_identity_t<T> b) noexcept {
  T sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// Returns a - b; nullopt if the difference does not fit T, so for unsigned T if b exceeds a.
template <Number T>
[[nodiscard]] constexpr std::optional<T> subtract(T a, std::type_identity_t<T> b) noexcept {
  T difference{};
  if (__builtin_sub_overflow(a, b, &difference)) return std::nullopt;
  return difference;
}

/// Returns a * b; nullopt if the product does not fit T.
template <Number T>
[[nodiscard]] constexpr std::optional<T> multiply(T a, std::type_identity_t<T> b) noexcept {
  T product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// Converts a number to another type; nullopt if it does not fit. The sign counts:
/// `narrow<std::uint64_t>(-1)` is nullopt.
template <Number To, Number From>
[[nodiscard]] constexpr std::optional<To> narrow(From value) noexcept {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

/// Rounds `value` up to a multiple of `alignment`. nullopt on overflow or if `alignment` is not a power of
/// two.
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

/// Whether [offset, offset + bytes) is inside a file or span of `total` bytes. An empty range fits at every
/// offset from 0 to `total`. Computes no sum, so it cannot overflow.
[[nodiscard]] constexpr bool range_fits(std::uint64_t offset, std::uint64_t bytes,
                                        std::uint64_t total) noexcept {
  return offset <= total && bytes <= total - offset;
}

}  // namespace ht::inline v1::checked

namespace ht::inline v1 {

/// Read-only and writable views of bytes in memory that others own. Many threads may read the same bytes; the
/// caller synchronizes writes.
using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

/// The range [offset, offset + count) of `bytes`; nullopt if it is not completely inside. The offset and the
/// count may be any numbers from a file: `part` never reads beyond `bytes`. A count of 0 is inside at every
/// offset up to the end.
[[nodiscard]] inline std::optional<Bytes> part(Bytes bytes, std::uint64_t offset,
                                               std::uint64_t count) noexcept {
  if (!checked::range_fits(offset, count, bytes.size())) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
}

/// A view of the bytes of `text`. The string must outlive the view: do not pass a temporary std::string.
[[nodiscard]] inline Bytes bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// A number that files store: an integer or floating-point number of at most 8 bytes.
template <class T>
concept WireNumber = std::is_arithmetic_v<T> && !std::same_as<T, bool> && sizeof(T) <= 8;

namespace detail {

/// Returns the number with its bytes in reverse order. Compilers recognise the loop as one instruction.
template <WireNumber T>
[[nodiscard]] constexpr T byte_swap(T value) noexcept {
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  for (std::size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
  return std::bit_cast<T>(bytes);
}

/// Converts between the byte order of this machine and `Order`; both directions are the same.
template <WireNumber T, std::endian Order>
[[nodiscard]] constexpr T convert_byte_order(T value) noexcept {
  if constexpr (Order == std::endian::native) return value;
  return byte_swap(value);
}

}  // namespace detail

/// Loads a number from the first `sizeof(T)` bytes of `bytes`, which must have that many. Any alignment.
/// Fewer bytes are undefined behaviour: get the span from `part`, which checks its size.
template <WireNumber T, std::endian Order>
[[nodiscard]] T load(Bytes bytes) noexcept {
  T value{};
  std::memcpy(&value, bytes.first(sizeof(T)).data(), sizeof(T));
  return detail::convert_byte_order<T, Order>(value);
}

/// Stores a number in the first `sizeof(T)` bytes of `bytes`, which must have that many. Any alignment.
template <std::endian Order, WireNumber T>
void store(MutableBytes bytes, T value) noexcept {
  value = detail::convert_byte_order<T, Order>(value);
  std::memcpy(bytes.first(sizeof(T)).data(), &value, sizeof(T));
}

/// Loads a little-endian number, as most formats store them; see `load`.
template <WireNumber T>
[[nodiscard]] T load_le(Bytes bytes) noexcept {
  return load<T, std::endian::little>(bytes);
}

/// Loads a big-endian number; see `load`.
template <WireNumber T>
[[nodiscard]] T load_be(Bytes bytes) noexcept {
  return load<T, std::endian::big>(bytes);
}

/// Stores a little-endian number; see `store`.
template <WireNumber T>
void store_le(MutableBytes bytes, T value) noexcept {
  store<std::endian::little>(bytes, value);
}

/// Stores a big-endian number; see `store`.
template <WireNumber T>
void store_be(MutableBytes bytes, T value) noexcept {
  store<std::endian::big>(bytes, value);
}

}  // namespace ht::inline v1
