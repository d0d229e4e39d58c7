// What every contender of one pass does with the bytes: enough to have looked at each of them, and so little
// that memory is what it waits for.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

namespace ht::bench {

/// The sum of the numbers of 64 bits that lie at multiples of 8 in a file. `position` is where the bytes
/// begin in it, so sums of pieces add up to that of the whole, however it is cut and in whatever order.
[[nodiscard]] std::uint64_t sum_of(std::uint64_t position, Bytes bytes) noexcept;

}  // namespace ht::bench
