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

/// 0 where every benchmark gave the right answer and every goal was met, else 1. With `--smoke` as the only
/// argument it runs each for a moment and looks at the answers alone, as a test may not depend on time.
int run_and_compare(int argc, char** argv, const std::vector<Goal>& goals);

}  // namespace ht::bench
