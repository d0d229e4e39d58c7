// Spans of bytes, and loads and stores of numbers in an explicit byte order.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <htensor/base/checked.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace ht::inline v1 {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

/// The range [offset, offset + count) of `bytes`; nullopt if it is not completely inside.
[[nodiscard]] constexpr std::optional<Bytes> part(Bytes bytes, std::uint64_t offset,
                                                  std::uint64_t count) noexcept {
  if (!checked::range_fits(offset, count, bytes.size())) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
}

/// The bytes of a text.
[[nodiscard]] inline Bytes bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <class T>
concept WireNumber = std::is_arithmetic_v<T> && !std::same_as<T, bool> && sizeof(T) <= 8;

namespace detail {

template <WireNumber T>
[[nodiscard]] constexpr T reversed(T value) noexcept {
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  for (std::size_t i = 0; i < sizeof(T) / 2; ++i) std::swap(bytes[i], bytes[sizeof(T) - 1 - i]);
  return std::bit_cast<T>(bytes);
}

template <WireNumber T, std::endian Order>
[[nodiscard]] constexpr T ordered(T value) noexcept {
  if constexpr (Order == std::endian::native) return value;
  return reversed(value);
}

}  // namespace detail

/// Loads a number from the first `sizeof(T)` bytes, at any alignment. There must be that many bytes.
template <WireNumber T, std::endian Order>
[[nodiscard]] T load(Bytes bytes) noexcept {
  T value{};
  std::memcpy(&value, bytes.first(sizeof(T)).data(), sizeof(T));
  return detail::ordered<T, Order>(value);
}

/// Stores the number in the first `sizeof(T)` bytes, at any alignment. There must be that many bytes.
template <std::endian Order, WireNumber T>
void store(MutableBytes bytes, T value) noexcept {
  value = detail::ordered<T, Order>(value);
  std::memcpy(bytes.first(sizeof(T)).data(), &value, sizeof(T));
}

template <WireNumber T>
[[nodiscard]] T load_le(Bytes bytes) noexcept {
  return load<T, std::endian::little>(bytes);
}

template <WireNumber T>
[[nodiscard]] T load_be(Bytes bytes) noexcept {
  return load<T, std::endian::big>(bytes);
}

template <WireNumber T>
void store_le(MutableBytes bytes, T value) noexcept {
  store<std::endian::little>(bytes, value);
}

template <WireNumber T>
void store_be(MutableBytes bytes, T value) noexcept {
  store<std::endian::big>(bytes, value);
}

}  // namespace ht::inline v1
