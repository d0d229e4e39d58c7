// Kernels that compute CRC-64/NVME, in one file per processor architecture; crc64nvme.cpp chooses one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ht::inline v1::crc64 {

/// Advances a CRC over `size` more bytes. `sum` and the result are CRCs without the final exclusive-or.
using Function = std::uint64_t (*)(const std::byte* data, std::size_t size, std::uint64_t sum) noexcept;

struct Kernel {
  std::string_view name;
  Function function;
  /// Whether this processor has the required instructions.
  bool (*is_supported)() noexcept;
};

/// The reference kernel. Tests compare the others with it, and the others use it for the last bytes.
[[nodiscard]] std::uint64_t by_table(const std::byte* data, std::size_t size, std::uint64_t sum) noexcept;

/// Kernels compiled for this architecture; this processor may support only some of them.
[[nodiscard]] std::span<const Kernel> architecture_kernels() noexcept;

/// Kernels that run on this processor, slowest first, beginning with the table.
[[nodiscard]] std::span<const Kernel> supported_kernels() noexcept;

/// Makes the whole process use the given kernel while the object exists. For tests; only one object may exist
/// at a time.
class KernelOverride {
 public:
  explicit KernelOverride(const Kernel& kernel) noexcept;
  KernelOverride(const KernelOverride&) = delete;
  KernelOverride& operator=(const KernelOverride&) = delete;
  ~KernelOverride();

 private:
  const Kernel* previous_;
};

// Polynomials over GF(2), modulo that of CRC-64/NVME, in reflected bit order: the highest bit of a word is
// the coefficient of x^0.

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

/// x^(8 · 2^k): the factor that advances a CRC over 2^k zero bytes.
inline constexpr auto zero_byte_factors = [] {
  std::array<std::uint64_t, 64> all{power_of_x(8)};
  for (std::size_t k = 1; k < all.size(); ++k) all[k] = multiply(all[k - 1], all[k - 1]);
  return all;
}();

/// The factors that fold the two words of a 128-bit lane into the lane `distance` bytes later, first word
/// first. The first word is 64 bits ahead of the second; carry-less products of reflected words are shifted
/// by one bit.
[[nodiscard]] constexpr std::array<std::uint64_t, 2> fold_constants(std::uint64_t distance) noexcept {
  return {power_of_x(8 * distance + 63), power_of_x(8 * distance - 1)};
}

}  // namespace ht::inline v1::crc64
