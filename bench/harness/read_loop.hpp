// Loops that only read bytes: the limit for every pass over memory.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

namespace ht::bench {

/// Returns true if the processor has AVX2, which the functions named after it need.
[[nodiscard]] bool has_avx2();

// Exclusive-or of 64-bit numbers, the last one padded with zeros: almost pure reading. The AVX2 loops are the
// limit; on processors without AVX2, the plain loop is.
[[nodiscard]] std::uint64_t by_avx2_read(Bytes bytes);
[[nodiscard]] std::uint64_t by_avx2_read_with_prefetch(Bytes bytes);
[[nodiscard]] std::uint64_t by_plain_read(Bytes bytes);

}  // namespace ht::bench
