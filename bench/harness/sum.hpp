// The work of every one-pass contender except dd: it reads each byte and is cheap enough to be limited by
// memory bandwidth.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

namespace ht::bench {

/// Returns the sum of the 64-bit numbers in a piece of a file. `bytes` is the piece, and `position` its file
/// offset. Each number begins at a multiple of 8 in the file. If the piece has only some bytes of a number,
/// the other bytes count as zeros. The sums of the pieces of a file therefore add up to the sum of the file,
/// in any division and order.
[[nodiscard]] std::uint64_t sum_of(std::uint64_t position, Bytes bytes) noexcept;

}  // namespace ht::bench
