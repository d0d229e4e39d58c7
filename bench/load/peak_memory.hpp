// Peak memory of a staged load.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/harness/report.hpp"
#include "bench/harness/workload.hpp"

namespace ht::bench {

/// Streams the file in a child process. The goal: the memory of this process grows by at most the size of the
/// ring plus 16 MiB.
[[nodiscard]] MeasuredValue peak_memory_goal(const Workload& workload);

/// Runs in the child process: prints the memory growth in bytes and the sum.
int measure_peak_memory(const std::filesystem::path& path);

}  // namespace ht::bench
