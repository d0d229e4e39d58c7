// Who is in which cell, and what they are held to.
#pragma once

#include <vector>

#include "bench/checksum/memory.hpp"
#include "bench/load/report.hpp"
#include "bench/load/workload.hpp"

namespace ht::bench {

struct Material {
  const Noise& large;
  const Noise& small;
  /// Sealed.
  const Workload& file;
};

/// All of them. What they are made of has to outlive them. With `smoke`, nothing is repeated for long.
[[nodiscard]] Cells make_cells(const Material& material, bool smoke);

[[nodiscard]] std::vector<FigureGoal> goals_of(const std::vector<Contender>& contenders);

}  // namespace ht::bench
