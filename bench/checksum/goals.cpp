#include "bench/checksum/cells.hpp"

namespace ht::bench {
namespace {

// Compares with the faster of the read loops.
MeasuredValue read_loop_goal(const std::vector<Contender>& contenders, const std::string& cell,
                             const std::string& of, double threshold) {
  return pair_goal(cell + ": speed of " + of + " / the better read loop", find(contenders, cell, of),
                   best_of(contenders, cell, Kind::limit), threshold);
}

}  // namespace

std::vector<MeasuredValue> goals_of(const std::vector<Contender>& contenders) {
  return {
      read_loop_goal(contenders, "memory, 1 thread", "crc64nvme", 0.9),
      speed_goal(contenders, "memory, 1 thread", "crc64nvme", "XXH3-64", 1.0),
      read_loop_goal(contenders, "memory, all threads", "crc64nvme", 0.95),
      speed_goal(contenders, "cold, load", "load --verify", "load", 0.95),
      read_loop_goal(contenders, "warm, verify", "verify", 0.85),
  };
}

}  // namespace ht::bench
