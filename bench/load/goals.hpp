// What loading is held to.
#pragma once

#include <vector>

#include "bench/load/cells.hpp"
#include "bench/load/report.hpp"

namespace ht::bench {

/// The goals that are ratios and times of contenders.
[[nodiscard]] std::vector<FigureGoal> goals_of(const std::vector<Contender>& contenders);

}  // namespace ht::bench
