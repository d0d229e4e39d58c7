// Each way of summing up bytes that are in memory, one file a contender. An answer is one number, whatever
// the length of the sum is.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

namespace ht::bench {

using Sum = std::uint64_t (*)(Bytes bytes);
/// The answer of two parts, one behind the other; the last is the size of the second.
using Combine = std::uint64_t (*)(std::uint64_t first, std::uint64_t second, std::uint64_t second_bytes);

/// For those whose sums of parts are not that of the whole: every part's own tells.
[[nodiscard]] constexpr std::uint64_t one_after_the_other(std::uint64_t first, std::uint64_t second,
                                                          std::uint64_t /*second_bytes*/) noexcept {
  return first * 31 + second;
}

// CRC-64/NVME: this library's, and by its definition, byte by byte.
std::uint64_t by_crc64nvme(Bytes bytes);
std::uint64_t by_byte_at_a_time(Bytes bytes);
/// What both have to come to.
std::uint64_t right_crc64nvme(Bytes bytes);

// Numbers of 64 bits added up by std::accumulate. Of memory that such numbers were written to, whole ones.
std::uint64_t by_accumulate(Bytes bytes);

// Numbers of 64 bits, the last one filled up with zeros, put together by exclusive-or: reading and all but
// nothing else. It is the limit where the processor has AVX2; the plain loop is for all others.
bool has_avx2();
std::uint64_t by_avx2_read(Bytes bytes);
std::uint64_t by_avx2_read_with_prefetch(Bytes bytes);
std::uint64_t by_plain_read(Bytes bytes);

// XXH3 by libxxhash, in the widest registers of the processor.
std::uint64_t by_xxh3_64(Bytes bytes);
std::uint64_t by_xxh3_128(Bytes bytes);

// CRC-32C by ISA-L.
#if HT_HAVE_ISAL
std::uint64_t by_crc32c(Bytes bytes);
#endif

// SHA-256 by OpenSSL.
/// Whether it is there.
bool sha256_works();
std::uint64_t by_sha256(Bytes bytes);

}  // namespace ht::bench
