// The goals of the load benchmark.
#pragma once

#include <vector>

#include "bench/load/cells.hpp"
#include "bench/turns/report.hpp"

namespace ht::bench {

/// The goals on ratios and times of contenders.
[[nodiscard]] std::vector<FigureGoal> goals_of(const std::vector<Contender>& contenders);

}  // namespace ht::bench
