// How many elements and bytes a dense tensor has: the one place that multiplies dimensions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <htensor/base/checked.hpp>
#include <optional>
#include <span>

namespace ht::inline v1 {

/// The product of the dimensions. Nothing where one is negative, or where those that are not zero
/// multiply to more than 63 bits, so that strides can be counted even if there is no element.
[[nodiscard]] constexpr std::optional<std::int64_t> element_count(
    std::span<const std::int64_t> dims) noexcept {
  std::int64_t product = 1;
  bool empty = false;
  for (const auto dim : dims) {
    if (dim < 0) return std::nullopt;
    empty = empty || dim == 0;
    const auto next = checked::multiply(product, std::max<std::int64_t>(dim, 1));
    if (!next) return std::nullopt;
    product = *next;
  }
  return empty ? 0 : product;
}

/// Bytes that hold this many elements of a width in bits, the last one filled up; nothing where they
/// cannot be counted.
[[nodiscard]] constexpr std::optional<std::uint64_t> bytes_for(std::uint64_t elements, int bits) noexcept {
  // By groups of eight, which are whole bytes, so that a count that fits never overflows on the way.
  const auto width = static_cast<std::uint64_t>(bits);
  const auto whole = checked::multiply(elements / 8, width);
  if (!whole) return std::nullopt;
  return checked::add(*whole, checked::bits_to_bytes(elements % 8 * width));
}

/// Bytes of a dense tensor; nothing where 63 bits cannot count them.
[[nodiscard]] constexpr std::optional<std::uint64_t> dense_bytes(std::span<const std::int64_t> dims,
                                                                 int bits) noexcept {
  const auto elements = element_count(dims);
  if (!elements) return std::nullopt;
  const auto bytes = bytes_for(static_cast<std::uint64_t>(*elements), bits);
  if (!bytes || !checked::narrow<std::int64_t>(*bytes)) return std::nullopt;
  return bytes;
}

}  // namespace ht::inline v1
