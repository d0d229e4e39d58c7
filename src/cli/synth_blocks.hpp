// Synthetic blocks of ggml's K encodings, which decode to weights of a realistic distribution.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>

namespace ht::cli {

/// Fills whole blocks, the first of which begins with the nth element of a seed's. `unsupported_encoding` for
/// all but Q4_K and Q6_K.
[[nodiscard]] Result<void> fill_blocks(EncodingTag encoding, std::uint64_t seed, std::uint64_t first,
                                       MutableBytes blocks);

}  // namespace ht::cli
