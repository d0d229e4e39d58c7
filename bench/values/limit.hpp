// Loops that only move bytes: the limit for conversions.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

#include "bench/turns/turn.hpp"

namespace ht::bench {

enum class Stores : std::uint8_t { none, ordinary, streaming };

/// Reads `in` and writes as many bytes as `out` has, on all processors. The answer is the exclusive-or of the
/// input.
[[nodiscard]] Turn run_limit(Bytes in, MutableBytes out, Stores stores);

}  // namespace ht::bench
