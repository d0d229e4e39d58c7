// Where the multi-byte numbers of a block lie, so that big-endian blocks can be byte-swapped.
#pragma once

#include <cstdint>
#include <htensor/dtype/encoding.hpp>
#include <span>

namespace ht::inline v1 {

/// A half, a float or an integer of 2 or 4 bytes.
struct BlockNumber {
  std::uint16_t offset;
  std::uint16_t bytes;
};

/// The numbers of more than one byte in a block, by offset; all other fields of a block are single bytes.
/// Byte-swapping each makes a big-endian block little-endian and back. Empty for encodings of bytes alone and
/// for unknown tags. The span is valid for as long as the program runs.
[[nodiscard]] std::span<const BlockNumber> numbers_of_block(EncodingTag encoding) noexcept;

}  // namespace ht::inline v1
