// Encoders of ggml's block encodings: F32 values to blocks that share scales.
//
// Every encoder minimises the sum of squared errors in a block, all elements weighing the same. The blocks
// are a function of their values alone: the same bits from every compiler, CPU and number of threads.
//
// The rules for values that a block cannot hold:
//
// - NaN is encoded as 0. Infinity is encoded as the largest magnitude among the finite elements of its block,
//   with its own sign, so that these keep their precision; as 65504 where all of them are 0. No block gets a
//   scale that is NaN or infinite.
// - Scales and offsets are halves and saturate at 65504; larger elements become the value nearest to them
// that
//   the block can hold. MXFP4 saturates at 1.5 * 2^127.
// - Scales below 2^-14 are rounded up to a multiple of 2^-24, unless they exceed one by less than 1/16 of
//   2^-24: small elements lose precision but are not clipped. A block with no element above 2^-26 becomes
//   zeros; in MXFP4, one with no element above 2^-130.
// - A block of zeros, of either sign, decodes to +0. In other blocks the sign of a zero is lost.
//
// Scales of Q4_0, Q5_0 and Q6_K may be negative; so may both halves of Q4_K and Q5_K, in blocks whose
// elements are all positive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/dtype/encoding.hpp>

namespace ht::inline v1 {

/// True for Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K and MXFP4.
[[nodiscard]] bool can_encode(EncodingTag encoding) noexcept;

/// Encodes `count` values, a whole number of blocks, of an encoding that `can_encode` knows. Neither
/// pointer has to be aligned beyond its type; the two ranges must not overlap. Allocates nothing.
void encode_blocks(EncodingTag encoding, const float* from, std::int64_t count, std::byte* blocks) noexcept;

}  // namespace ht::inline v1
