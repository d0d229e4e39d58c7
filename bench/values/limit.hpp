// Loops that only move bytes: the limit for conversions.
#pragma once

#include <cstdint>
#include <htensor/base/bytes.hpp>

#include "bench/harness/turn.hpp"

namespace ht::bench {

/// The store instructions of `run_limit`. Streaming stores bypass the caches.
enum class Stores : std::uint8_t { none, ordinary, streaming };

/// Reads `in` and, unless `stores` is `none`, fills `out`, on all processors. The answer is the exclusive-or
/// of the input.
[[nodiscard]] TurnResult run_limit(Bytes in, MutableBytes out, Stores stores);

}  // namespace ht::bench
