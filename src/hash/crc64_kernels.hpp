// The ways to compute CRC-64/NVME, each in a file that knows one kind of processor; crc64.cpp picks one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ht::inline v1::crc64 {

/// Takes the sum, without its final exclusive-or, over `size` more bytes.
using Function = std::uint64_t (*)(const std::byte* data, std::size_t size, std::uint64_t sum) noexcept;

struct Kernel {
  std::string_view name;
  Function function;
  /// Whether this processor has what it needs.
  bool (*runs_here)() noexcept;
};

/// The oracle: what the others are held against, and what ends their work.
[[nodiscard]] std::uint64_t by_table(const std::byte* data, std::size_t size, std::uint64_t sum) noexcept;

/// Those that were compiled for this kind of processor; any, or none, may run here.
[[nodiscard]] std::span<const Kernel> processor_kernels() noexcept;

/// All that run here, the slowest first, which is the table.
[[nodiscard]] std::span<const Kernel> kernels_here() noexcept;

/// Has another one do all sums of the process while it lives: for tests and benchmarks, one at a time.
class UseKernel {
 public:
  explicit UseKernel(const Kernel& kernel) noexcept;
  UseKernel(const UseKernel&) = delete;
  UseKernel& operator=(const UseKernel&) = delete;
  ~UseKernel();

 private:
  const Kernel* before_;
};

}  // namespace ht::inline v1::crc64
