// Who is in which cell.
#pragma once

#include <optional>

#include "bench/load/contenders.hpp"
#include "bench/load/runner.hpp"

namespace ht::bench {

/// The strategy `read`; "read" is the same into the caller's memory.
inline constexpr const char* own_memory = "read (own memory)";

struct CellOptions {
  /// Where direct reads can be.
  std::optional<DirectShape> direct;
  /// The same small model behind a file system that is slow to answer, if there is one.
  const Workload* far = nullptr;
};

/// All of them for this file. What they are made of has to outlive them.
[[nodiscard]] Cells make_cells(const Workload& workload, const Destination& into, const CellOptions& options);

}  // namespace ht::bench
