// Which kernel sums up, chosen once.
#include <htensor/hash/crc64nvme.h>
#include <htensor/hash/crc64.hpp>

#include <algorithm>
#include <array>
#include <atomic>

#include "hash/crc64_kernels.hpp"

namespace ht::inline v1 {
namespace crc64 {
namespace {

// Later ones are faster.
struct KernelsHere {
  std::array<Kernel, 4> kernels{{{"table", by_table, []() noexcept { return true; }}}};
  std::size_t count = 1;

  KernelsHere() noexcept {
    for (const auto& kernel : processor_kernels()) {
      if (kernel.runs_here()) kernels[count++] = kernel;
    }
  }
};

// Null until somebody sums up: nothing happens before main.
constinit std::atomic<const Kernel*> chosen = nullptr;

const Kernel& kernel() noexcept {
  const Kernel* found = chosen.load(std::memory_order_acquire);
  if (found == nullptr) {
    // Whoever else looks at the same time finds the same.
    found = &kernels_here().back();
    chosen.store(found, std::memory_order_release);
  }
  return *found;
}

}  // namespace

#if !defined(__x86_64__) && !(defined(__aarch64__) && defined(__linux__))
std::span<const Kernel> processor_kernels() noexcept { return {}; }
#endif

std::span<const Kernel> kernels_here() noexcept {
  static const KernelsHere here;
  return std::span(here.kernels).first(here.count);
}

UseKernel::UseKernel(const Kernel& kernel) noexcept : before_(chosen.exchange(&kernel)) {}
UseKernel::~UseKernel() { chosen.store(before_); }

}  // namespace crc64

std::uint64_t crc64nvme(Bytes bytes, std::uint64_t before) noexcept {
  return ~crc64::kernel().function(bytes.data(), bytes.size(), ~before);
}

std::uint64_t crc64nvme_combine(std::uint64_t first, std::uint64_t second,
                                std::uint64_t second_bytes) noexcept {
  // Linear: the first sum goes on over as many zeros, and the all ones before and behind cancel out.
  for (const std::uint64_t zeros : crc64::zero_bytes) {
    if (second_bytes == 0) break;
    if ((second_bytes & 1) != 0) first = crc64::multiply(first, zeros);
    second_bytes >>= 1;
  }
  return first ^ second;
}

std::string_view crc64nvme_kernel() noexcept { return crc64::kernel().name; }

}  // namespace ht::inline v1

extern "C" std::uint64_t htensor_crc64nvme(const void* data, std::size_t size) {
  return ht::crc64nvme(ht::Bytes(static_cast<const std::byte*>(data), size));
}
