#include "bench/checksum/cells.hpp"

namespace ht::bench {
namespace {

// The faster of several read loops is the limit.
FigureGoal limit_goal(const std::vector<Contender>& contenders, const std::string& cell,
                      const std::string& of, double limit) {
  return pair_goal(cell + ": speed of " + of + " / the better read loop", find(contenders, cell, of),
                   best_of(contenders, cell, Kind::limit), limit);
}

}  // namespace

std::vector<FigureGoal> goals_of(const std::vector<Contender>& contenders) {
  return {
      limit_goal(contenders, "memory, 1 thread", "crc64nvme", 0.9),
      speed_goal(contenders, "memory, 1 thread", "crc64nvme", "XXH3-64", 1.0),
      limit_goal(contenders, "memory, all threads", "crc64nvme", 0.95),
      speed_goal(contenders, "cold, load", "load --verify", "load", 0.95),
      limit_goal(contenders, "warm, verify", "verify", 0.85),
  };
}

}  // namespace ht::bench
