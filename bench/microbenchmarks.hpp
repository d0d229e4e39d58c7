// Runs the registered benchmarks several times, interleaved, takes the best time of each, and compares ratios
// of these times with the goals.
#pragma once

#include <string>
#include <vector>

namespace ht::bench {

/// `of` takes at most `threshold` times as long as `against`.
struct Goal {
  std::string of;
  std::string against;
  double threshold;
};

/// Returns 0 if every benchmark gave the right answer and all goals were met, 2 after an unknown option, else
/// 1. Each goal must name registered benchmarks. A goal is ignored if `--benchmark_filter` leaves out one of
/// its benchmarks. With `--smoke` as the only argument, runs each benchmark briefly and checks only the
/// answers and the names, because a test must not depend on time.
int run_and_compare(int argc, char** argv, const std::vector<Goal>& goals);

}  // namespace ht::bench
