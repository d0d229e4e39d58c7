#include <htensor/hash/crc64.hpp>

#include <array>

namespace ht::inline v1 {
namespace {

constexpr std::uint64_t polynomial = 0x9a6c'9329'ac4b'c9b5;

// tables[k][b] is what byte b does to the sum when k more bytes follow it.
constexpr auto tables = [] {
  std::array<std::array<std::uint64_t, 256>, 8> all{};
  for (std::uint64_t byte = 0; byte < 256; ++byte) {
    std::uint64_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? polynomial : 0);
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

std::uint64_t crc64nvme(Bytes bytes, std::uint64_t before) noexcept {
  std::uint64_t sum = ~before;
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
  return ~sum;
}

}  // namespace ht::inline v1
