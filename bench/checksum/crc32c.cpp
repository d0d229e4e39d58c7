#include "bench/checksum/sums.hpp"

#if HT_HAVE_ISAL

#include <isa-l/crc.h>

#include <algorithm>

namespace ht::bench {

std::uint64_t by_crc32c(Bytes bytes) {
  // The length parameter is an int.
  constexpr std::size_t max_part = std::size_t{1} << 30;
  unsigned sum = ~0U;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(max_part, bytes.size()));
    // The parameter is not const, but the function does not write.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    sum = crc32_iscsi(data, static_cast<int>(piece.size()), sum);
    bytes = bytes.subspan(piece.size());
  }
  return ~sum;
}

}  // namespace ht::bench

#endif
