// CRC-64/NVME, the checksum of the library's file formats.
//
// Reflected polynomial 0x9a6c9329ac4bc9b5, initial value and final exclusive-or all ones; the sum of
// "123456789" is 0xae8b14860a799888. It detects every single-bit error and every burst error of up to 64
// bits. The first call selects the fastest kernel of this processor; all kernels return the same sums.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <string_view>

namespace ht::inline v1 {

/// The sum of `bytes`. `before` is the sum of the preceding bytes: `crc64nvme(b, crc64nvme(a))` is the sum of
/// a followed by b.
[[nodiscard]] std::uint64_t crc64nvme(Bytes bytes, std::uint64_t before = 0) noexcept;

/// The sum of two consecutive pieces, from the sum of each, so that pieces can be summed in parallel. Takes
/// microseconds for any sizes.
[[nodiscard]] std::uint64_t crc64nvme_combine(std::uint64_t first, std::uint64_t second,
                                              std::uint64_t second_bytes) noexcept;

/// The selected kernel: "table", "pclmulqdq", "vpclmulqdq" or "pmull".
[[nodiscard]] std::string_view crc64nvme_kernel() noexcept;

}  // namespace ht::inline v1
