// Offsets of the multi-byte numbers of a block, for byte-swapping big-endian blocks.
#pragma once

#include <cstdint>
#include <htensor/dtype/encoding.hpp>
#include <span>

namespace ht::inline v1 {

/// A half, a float, or an integer of 2 or 4 bytes.
struct BlockNumber {
  std::uint16_t offset;
  std::uint16_t bytes;
};

/// The numbers of more than one byte in a block, by offset; all other fields are single bytes. Byte-swapping
/// each number converts between big-endian and little-endian. Empty for encodings of single bytes only and
/// for unknown tags. The span has static lifetime.
[[nodiscard]] std::span<const BlockNumber> numbers_of_block(EncodingTag encoding) noexcept;

}  // namespace ht::inline v1
