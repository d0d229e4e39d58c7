// The work of every one-pass contender except dd: it reads each byte and is cheap enough to be limited by
// memory bandwidth.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

namespace ht::bench {

/// The sum of the 64-bit numbers at multiples of 8 in a file. `position` is the file offset of the bytes.
/// Bytes of a number that are outside of the piece count as zeros, so the sums of pieces add up to the sum of
/// the whole, in any division and order.
[[nodiscard]] std::uint64_t sum_of(std::uint64_t position, Bytes bytes) noexcept;

}  // namespace ht::bench
