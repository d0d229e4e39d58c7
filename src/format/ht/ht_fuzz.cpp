#include <htensor/base/bytes.hpp>
#include <htensor/hash/digest.hpp>
#include <vector>

#include "format/fuzz_format.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ht::testing::check_format("ht", data, size);
  // Random headers almost never have a valid checksum. With a valid one, the later checks are reached.
  constexpr std::size_t sum_at = 8 + 120;
  if (size >= sum_at + 8) {
    std::vector<std::uint8_t> summed(data, data + size);
    const auto bytes = std::as_writable_bytes(std::span(summed));
    ht::store_le(bytes.subspan(sum_at), ht::crc64nvme(bytes.subspan(8, 120)));
    ht::testing::check_format("ht", summed.data(), summed.size());
  }
  return 0;
}
