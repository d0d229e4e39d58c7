// From blocks to F32: the values that ggml gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/dtype/encoding.hpp>

namespace ht::inline v1 {

/// Whether `decode_blocks` knows the encoding: all of `AllEncodings`, and neither `dense` nor unknown tags.
[[nodiscard]] bool can_decode(EncodingTag encoding) noexcept;

/// Writes the values of `count` whole blocks to `into`, `block_elements` for each.
///
/// Blocks may lie at any address, and no byte outside of them is read; `into` is aligned for float. The bits
/// are the same on every processor, but for those of a NaN: each operation rounds once, in ggml's order and
/// never fused (decode_reference.hpp). `can_decode` has to be true.
///
/// Thread-safe. A call costs two indirect calls beside its work, so strips of 256 elements are large enough.
void decode_blocks(EncodingTag encoding, const std::byte* blocks, std::int64_t count, float* into) noexcept;

}  // namespace ht::inline v1
