// Functions that sum bytes in memory; each algorithm is in its own source file. bench/harness/read_loop.hpp
// declares further ones. An answer is one 64-bit number, regardless of the length of the checksum.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

namespace ht::bench {

using Sum = std::uint64_t (*)(Bytes bytes);
/// Combines the answers of two consecutive parts; `second_bytes` is the size of the second part.
using Combine = std::uint64_t (*)(std::uint64_t first, std::uint64_t second, std::uint64_t second_bytes);

/// For checksums that cannot be combined: hashes the answers of all parts.
[[nodiscard]] constexpr std::uint64_t combine_ordered(std::uint64_t first, std::uint64_t second,
                                                      std::uint64_t /*second_bytes*/) noexcept {
  return first * 31 + second;
}

// CRC-64/NVME: by this library, and by its definition, byte by byte.
std::uint64_t by_crc64nvme(Bytes bytes);
std::uint64_t by_byte_at_a_time(Bytes bytes);
/// The expected answer of both.
std::uint64_t expected_crc64nvme(Bytes bytes);

// 64-bit numbers added by std::accumulate. The memory must contain whole 64-bit numbers.
std::uint64_t by_accumulate(Bytes bytes);

// XXH3 by libxxhash; on x86-64, with the widest registers of the processor.
std::uint64_t by_xxh3_64(Bytes bytes);
std::uint64_t by_xxh3_128(Bytes bytes);

// CRC-32C by ISA-L.
#if HT_HAVE_ISAL
std::uint64_t by_crc32c(Bytes bytes);
#endif

// SHA-256 by OpenSSL.
/// Returns true if SHA-256 is available.
bool has_sha256();
std::uint64_t by_sha256(Bytes bytes);

}  // namespace ht::bench
