#include <htensor/base/bytes.hpp>

namespace ht::inline v1 {

std::optional<Bytes> part(Bytes bytes, std::uint64_t offset, std::uint64_t count) noexcept {
  if (!checked::range_fits(offset, count, bytes.size())) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
}

}  // namespace ht::inline v1
