// The goals of the load benchmark.
#pragma once

#include <vector>

#include "bench/harness/report.hpp"
#include "bench/load/cells.hpp"

namespace ht::bench {

/// The goals on ratios and times of contenders.
[[nodiscard]] std::vector<MeasuredValue> goals_of(const std::vector<Contender>& contenders);

}  // namespace ht::bench
