// The cells of the load benchmark and their contenders.
#pragma once

#include <optional>

#include "bench/load/contenders.hpp"
#include "bench/turns/runner.hpp"

namespace ht::bench {

/// In the cells `all`, the contender that loads with the strategy `read`, into memory of the library. The
/// contender "read" of these cells loads into memory of the caller.
inline constexpr const char* own_memory = "read (own memory)";

struct CellOptions {
  /// Set if direct reads are supported.
  std::optional<DirectShape> direct;
  /// A smaller model on a file system with high latency; null if unavailable.
  const Workload* far = nullptr;
};

/// Creates all cells for this file. The arguments must outlive the result.
[[nodiscard]] Cells make_cells(const Workload& workload, const Destination& into, const CellOptions& options);

}  // namespace ht::bench
