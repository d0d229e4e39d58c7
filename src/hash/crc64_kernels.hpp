// The ways to compute CRC-64/NVME, each in a file that knows one kind of processor; crc64.cpp picks one.
#pragma once

#include <array>
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

// Polynomials over one bit, modulo that of CRC-64/NVME, in the order in which its sums have them: the highest
// bit of a word is the coefficient of x^0.

inline constexpr std::uint64_t polynomial = 0x9a6c'9329'ac4b'c9b5;
inline constexpr std::uint64_t one = std::uint64_t{1} << 63;

[[nodiscard]] constexpr std::uint64_t times_x(std::uint64_t a) noexcept {
  return (a >> 1) ^ ((a & 1) != 0 ? polynomial : 0);
}

[[nodiscard]] constexpr std::uint64_t multiply(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & one) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

[[nodiscard]] constexpr std::uint64_t power_of_x(std::uint64_t exponent) noexcept {
  std::uint64_t power = one;
  for (std::uint64_t square = times_x(one); exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power = multiply(power, square);
    square = multiply(square, square);
  }
  return power;
}

/// x^(8 · 2^k): what 2^k zero bytes multiply a sum with.
inline constexpr auto zero_bytes = [] {
  std::array<std::uint64_t, 64> all{power_of_x(8)};
  for (std::size_t k = 1; k < all.size(); ++k) all[k] = multiply(all[k - 1], all[k - 1]);
  return all;
}();

/// What carries the two words of a 128-bit lane over a distance in bytes, first word first. The first word
/// stands 64 bits before the second; carry-less products of reflected words come out one bit too far.
[[nodiscard]] constexpr std::array<std::uint64_t, 2> fold_constants(std::uint64_t bytes) noexcept {
  return {power_of_x(8 * bytes + 63), power_of_x(8 * bytes - 1)};
}

}  // namespace ht::inline v1::crc64
