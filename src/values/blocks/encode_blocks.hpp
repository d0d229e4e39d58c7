// Encoders of ggml's block encodings: F32 values to blocks that share scales.
//
// Encoders search for the scales with the smallest sum of squared errors, with equal weight for all elements;
// Q8_0 has no search and maps the largest magnitude to 127. Blocks depend only on their values: every
// compiler, CPU and number of threads gives the same bits.
//
// Values that a block cannot represent:
//
// - NaN is encoded as 0. Infinity is encoded with its sign and the largest finite magnitude of its block, so
//   that finite elements keep their precision. The magnitude is 65504 if all finite elements are 0. Scales
//   are never NaN or infinite.
// - Scales and offsets are F16 and saturate at 65504. Elements beyond the range of such a block become the
//   nearest value that it can represent. MXFP4 saturates at 1.5 * 2^127.
// - Scales below 2^-14 are subnormal in F16. They are rounded up to a multiple of 2^-24, so that elements
//   lose precision but are not clipped. A scale at most 2^-28 above a nonzero multiple is rounded down to
//   that multiple. A block whose elements are all at most 2^-26 in magnitude becomes zeros; in MXFP4, the
//   limit is 2^-130.
// - A block of zeros, of either sign, decodes to +0. In other blocks the sign of a zero is lost.
//
// Scales of Q4_0, Q5_0 and Q6_K may be negative. In Q4_K and Q5_K, d and dmin are negative if all elements of
// a block are positive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/dtype/encoding.hpp>

namespace ht::inline v1 {

/// True for Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K and MXFP4.
[[nodiscard]] bool can_encode(EncodingTag encoding) noexcept;

/// Encodes `count` values, a whole number of blocks. Requires `can_encode(encoding)`. Pointers need the
/// alignment of their types only. The ranges must not overlap. Does not allocate.
void encode_blocks(EncodingTag encoding, const float* from, std::int64_t count, std::byte* blocks) noexcept;

}  // namespace ht::inline v1
