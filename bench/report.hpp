// Runs the registered benchmarks several times in turns, takes the best of each, and holds ratios of
// them against their goals.
#pragma once

#include <string>
#include <vector>

namespace ht::bench {

/// `of` takes at most `limit` times as long as `against`.
struct Goal {
  std::string of;
  std::string against;
  double limit;
};

/// 0, also where a goal is missed, which is shown: the machine may be at fault. 1 where a benchmark
/// failed, as one that computes a wrong answer does.
int run_and_compare(int argc, char** argv, const std::vector<Goal>& goals);

}  // namespace ht::bench
