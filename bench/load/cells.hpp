// The cells of the load benchmark and their contenders.
#pragma once

#include <optional>

#include "bench/harness/runner.hpp"
#include "bench/load/contenders.hpp"

namespace ht::bench {

struct CellOptions {
  /// Set if direct reads are supported.
  std::optional<DirectShape> direct;
  /// A smaller model on a file system with high latency; null if unavailable.
  const Workload* high_latency = nullptr;
};

/// Creates all cells for this file. The arguments must outlive the result.
[[nodiscard]] Cells make_cells(const Workload& workload, const Destination& into, const CellOptions& options);

}  // namespace ht::bench
