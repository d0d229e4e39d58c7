#include <array>
#include <htensor/hash/digest.hpp>

#include "bench/checksum/sums.hpp"
#include "src/hash/crc64nvme_kernels.hpp"

namespace ht::bench {
namespace {

// Computed here, because the benchmark measures the definition and not the library's table.
constexpr auto table = [] {
  std::array<std::uint64_t, 256> all{};
  for (std::uint64_t byte = 0; byte < 256; ++byte) {
    std::uint64_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? 0x9a6c'9329'ac4b'c9b5 : 0);
    all[byte] = sum;
  }
  return all;
}();

}  // namespace

std::uint64_t by_crc64nvme(Bytes bytes) { return crc64nvme(bytes); }

std::uint64_t by_byte_at_a_time(Bytes bytes) {
  std::uint64_t sum = ~std::uint64_t{0};
  for (const std::byte byte : bytes) {
    sum = (sum >> 8) ^ table[(sum ^ std::to_integer<std::uint64_t>(byte)) & 0xFF];
  }
  return ~sum;
}

std::uint64_t expected_crc64nvme(Bytes bytes) {
  return ~crc64::by_table(bytes.data(), bytes.size(), ~std::uint64_t{0});
}

}  // namespace ht::bench
