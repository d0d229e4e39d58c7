// Medians and quartiles of measurements.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace ht::bench {

/// Interpolates linearly between two values; `values` is not empty.
[[nodiscard]] inline double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const auto above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

}  // namespace ht::bench
