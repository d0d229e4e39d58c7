// CRC-64/NVME, the checksum of every format here that has one.
//
// Reflected polynomial 0x9a6c9329ac4bc9b5, initial value and final exclusive-or all ones; the sum of
// "123456789" is 0xae8b14860a799888. It finds every single flipped bit and every burst of up to 64.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

namespace ht::inline v1 {

/// The sum of `bytes`. To go on after a sum over what comes before, pass that as `before`:
/// `crc64nvme(b, crc64nvme(a))` is the sum of a followed by b.
[[nodiscard]] std::uint64_t crc64nvme(Bytes bytes, std::uint64_t before = 0) noexcept;

}  // namespace ht::inline v1
