// The cells of the checksum benchmark, their contenders and their goals.
#pragma once

#include <vector>

#include "bench/checksum/memory.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/workload.hpp"

namespace ht::bench {

struct Inputs {
  const RandomMemory& large;
  const RandomMemory& small;
  /// A sealed file.
  const Workload& file;
};

/// Creates all cells. The inputs must outlive them. `smoke` shortens repetitions.
[[nodiscard]] Cells make_cells(const Inputs& inputs, bool smoke);

[[nodiscard]] std::vector<MeasuredValue> goals_of(const std::vector<Contender>& contenders);

}  // namespace ht::bench
