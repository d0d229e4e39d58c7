// Who is in which cell.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "bench/load/runner.hpp"

namespace ht::bench {

struct CellOptions {
  /// Where direct reads can be.
  std::optional<DirectShape> direct;
  /// The same small model behind a file system that is slow to answer, if there is one.
  const Workload* far = nullptr;
};

/// The cells stay where they are, as contenders point to them.
struct Cells {
  std::deque<Cell> cells;
  std::vector<Contender> contenders;
};

/// All of them for this file. What they are made of has to outlive them.
[[nodiscard]] Cells make_cells(const Workload& workload, const Destination& into, const CellOptions& options);

}  // namespace ht::bench
