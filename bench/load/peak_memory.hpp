// How much memory a staged load takes at most.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/load/report.hpp"
#include "bench/load/workload.hpp"

namespace ht::bench {

/// Has a process of its own stream the file, and holds what that took against its ring.
[[nodiscard]] FigureGoal peak_memory_goal(const Workload& workload);

/// What that process does: it prints the growth in bytes and the sum.
int measure_peak_memory(const std::filesystem::path& path);

}  // namespace ht::bench
