// Decodes blocks to F32, with the same values as ggml.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/dtype/encoding.hpp>

namespace ht::inline v1 {

/// True for all of `AllEncodings`; false for `dense` and unknown tags.
[[nodiscard]] bool can_decode(EncodingTag encoding) noexcept;

/// Writes the values of `count` blocks to `into`, `block_elements` for each.
///
/// Blocks need no alignment, and bytes outside of them are not read. `into` is aligned for float. Requires
/// `can_decode(encoding)`. The bits are the same on every processor, except those of a NaN: each operation
/// rounds once, in ggml's order, without fused operations (decode_reference.hpp).
///
/// Thread-safe. The overhead of a call is two indirect calls, so 256 elements per call are enough.
void decode_blocks(EncodingTag encoding, const std::byte* blocks, std::int64_t count, float* into) noexcept;

}  // namespace ht::inline v1
