// The table kernel, which is the reference for all kernels, and the selection of the fastest kernel.
#include <htensor/hash/digest.hpp>

#include <algorithm>
#include <array>
#include <atomic>

#include "hash/crc64nvme_kernels.hpp"

namespace ht::inline v1 {
namespace crc64 {
namespace {

// tables[k][b] is the effect of byte b on the CRC when k more bytes follow it.
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

// Kernels that this processor supports, in order of increasing speed.
struct SupportedKernels {
  std::array<Kernel, 4> kernels{{{"table", by_table, []() noexcept { return true; }}}};
  std::size_t count = 1;

  SupportedKernels() noexcept {
    for (const auto& kernel : architecture_kernels()) {
      if (kernel.is_supported()) kernels[count++] = kernel;
    }
  }
};

// Null until the first use, so that this file needs no dynamic initialization.
constinit std::atomic<const Kernel*> selected = nullptr;

const Kernel& kernel() noexcept {
  const Kernel* found = selected.load(std::memory_order_acquire);
  if (found == nullptr) {
    // A race is harmless: all threads choose the same kernel.
    found = &supported_kernels().back();
    selected.store(found, std::memory_order_release);
  }
  return *found;
}

}  // namespace

std::uint64_t by_table(const std::byte* data, std::size_t size, std::uint64_t sum) noexcept {
  Bytes bytes(data, size);
  // Eight bytes per step: the eight look-ups are independent.
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

#if !defined(__x86_64__) && !(defined(__aarch64__) && defined(__linux__))
std::span<const Kernel> architecture_kernels() noexcept { return {}; }
#endif

std::span<const Kernel> supported_kernels() noexcept {
  static const SupportedKernels supported;
  return std::span(supported.kernels).first(supported.count);
}

KernelOverride::KernelOverride(const Kernel& kernel) noexcept : previous_(selected.exchange(&kernel)) {}
KernelOverride::~KernelOverride() { selected.store(previous_); }

}  // namespace crc64

std::uint64_t crc64nvme(Bytes bytes, std::uint64_t before) noexcept {
  return ~crc64::kernel().function(bytes.data(), bytes.size(), ~before);
}

std::uint64_t crc64nvme_combine(std::uint64_t first, std::uint64_t second,
                                std::uint64_t second_bytes) noexcept {
  // CRCs are linear: the first CRC is advanced over `second_bytes` zeros. The initial and final all-ones
  // cancel out.
  for (const std::uint64_t factor : crc64::zero_byte_factors) {
    if (second_bytes == 0) break;
    if ((second_bytes & 1) != 0) first = crc64::multiply(first, factor);
    second_bytes >>= 1;
  }
  return first ^ second;
}

std::string_view crc64nvme_kernel() noexcept { return crc64::kernel().name; }

}  // namespace ht::inline v1
