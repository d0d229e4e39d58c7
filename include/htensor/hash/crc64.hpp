// CRC-64/NVME, the checksum of every format here that has one.
//
// Reflected polynomial 0x9a6c9329ac4bc9b5, initial value and final exclusive-or all ones; the sum of
// "123456789" is 0xae8b14860a799888. It finds every single flipped bit and every burst of up to 64. The
// fastest way of this processor is picked when it is first used; all give the same sums.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <string_view>

namespace ht::inline v1 {

/// The sum of `bytes`. To go on after a sum over what comes before, pass that as `before`:
/// `crc64nvme(b, crc64nvme(a))` is the sum of a followed by b.
[[nodiscard]] std::uint64_t crc64nvme(Bytes bytes, std::uint64_t before = 0) noexcept;

/// The sum of two pieces, one behind the other, from the sum of each: pieces can be summed up side by side.
/// In microseconds, whatever they measure.
[[nodiscard]] std::uint64_t crc64nvme_combine(std::uint64_t first, std::uint64_t second,
                                              std::uint64_t second_bytes) noexcept;

/// What computes it here: "table", "pclmulqdq", "vpclmulqdq" or "pmull".
[[nodiscard]] std::string_view crc64nvme_kernel() noexcept;

}  // namespace ht::inline v1
