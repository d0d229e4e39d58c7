// Compares every kernel that runs on this processor with the table kernel. A separate program without
// dependencies, so that a cross compiler can build it and an emulator can run it (crc64nvme_arm_test.py).
#include <cstdio>
#include <htensor/hash/digest.hpp>
#include <string>
#include <vector>

#include "hash/crc64nvme_kernels.hpp"

using namespace ht;

namespace {

// Prints the first difference from the table kernel.
bool matches_the_table(const crc64::Kernel& kernel, const std::vector<std::byte>& data) {
  constexpr std::size_t max_length = 4096;
  for (std::size_t misaligned = 0; misaligned < 64; misaligned += 7) {
    std::uint64_t expected = 0x1234'5678'9abc'def0;
    for (std::size_t length = 0; length <= max_length; ++length) {
      if (length > 0) expected = crc64::by_table(data.data() + misaligned + length - 1, 1, expected);
      if (kernel.function(data.data() + misaligned, length, 0x1234'5678'9abc'def0) != expected) {
        std::printf("%s is wrong for %zu bytes at %zu\n", std::string(kernel.name).c_str(), length,
                    misaligned);
        return false;
      }
    }
  }
  return true;
}

}  // namespace

int main() {
  std::vector<std::byte> data(4096 + 64);
  std::uint64_t state = 1;
  for (auto& byte : data) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56);
  }
  bool good = crc64nvme(bytes_of("123456789")) == 0xae8b'1486'0a79'9888;
  for (const auto& kernel : crc64::supported_kernels()) {
    std::printf("%s\n", std::string(kernel.name).c_str());
    good = matches_the_table(kernel, data) && good;
  }
  return good ? 0 : 1;
}
