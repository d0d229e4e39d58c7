#include <algorithm>
#include <htensor/base/bytes.hpp>
#include <htensor/dtype/packed.hpp>

namespace ht::inline v1 {

std::optional<std::int64_t> element_count(std::span<const std::int64_t> dims) noexcept {
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

std::optional<std::uint64_t> bytes_for(std::uint64_t elements, int bits) noexcept {
  // Counts in groups of eight elements, which are whole bytes, so that no intermediate result overflows.
  const auto width = static_cast<std::uint64_t>(bits);
  const auto whole = checked::multiply(elements / 8, width);
  if (!whole) return std::nullopt;
  return checked::add(*whole, checked::bits_to_bytes(elements % 8 * width));
}

std::optional<std::uint64_t> dense_bytes(std::span<const std::int64_t> dims, int bits) noexcept {
  const auto elements = element_count(dims);
  if (!elements) return std::nullopt;
  const auto bytes = bytes_for(static_cast<std::uint64_t>(*elements), bits);
  if (!bytes || !checked::narrow<std::int64_t>(*bytes)) return std::nullopt;
  return bytes;
}

}  // namespace ht::inline v1
