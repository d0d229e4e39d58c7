#include <array>
#include <htensor/base/bytes.hpp>

#include "hash/crc64_kernels.hpp"

namespace ht::inline v1::crc64 {
namespace {

// tables[k][b] is what byte b does to the sum when k more bytes follow it.
constexpr auto tables = [] {
  std::array<std::array<std::uint64_t, 256>, 8> all{};
  for (std::uint64_t byte = 0; byte < 256; ++byte) {
    std::uint64_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = times_x(sum);
    all[0][byte] = sum;
  }
  for (std::size_t k = 1; k < all.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint64_t before = all[k - 1][byte];
      all[k][byte] = (before >> 8) ^ all[0][before & 0xFF];
    }
  }
  return all;
}();

}  // namespace

std::uint64_t by_table(const std::byte* data, std::size_t size, std::uint64_t sum) noexcept {
  Bytes bytes(data, size);
  // Eight bytes a step: their eight look-ups do not wait for each other.
  while (bytes.size() >= 8) {
    sum ^= load_le<std::uint64_t>(bytes);
    std::uint64_t next = 0;
    for (unsigned i = 0; i < 8; ++i) next ^= tables[7 - i][(sum >> (8 * i)) & 0xFF];
    sum = next;
    bytes = bytes.subspan(8);
  }
  for (const std::byte byte : bytes) {
    sum = (sum >> 8) ^ tables[0][(sum ^ std::to_integer<std::uint64_t>(byte)) & 0xFF];
  }
  return sum;
}

}  // namespace ht::inline v1::crc64
