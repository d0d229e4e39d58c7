#include "bench/load/goals.hpp"

namespace ht::bench {
namespace {

using Contenders = std::vector<Contender>;

// Compares `automatic` with the fastest strategy; in the cells "all", with the strategy that `automatic`
// selected, because a mapping and a copy in memory are different results.
MeasuredValue choice_goal(const Contenders& contenders, const Contender& automatic) {
  const std::string& cell = automatic.cell->name;
  const bool is_all = cell.ends_with(", all");
  const std::string chosen = automatic.note.substr(0, automatic.note.find(':'));
  const auto* const best =
      is_all ? find(contenders, cell, chosen) : best_of(contenders, cell, Kind::strategy);
  return pair_goal(cell + ": speed of automatic / " + (is_all ? chosen : "the best strategy"), &automatic,
                   best, 0.9);
}

}  // namespace

std::vector<MeasuredValue> goals_of(const Contenders& contenders) {
  std::vector<MeasuredValue> goals{
      speed_goal(contenders, "cold, all", "read", "O_DIRECT loop", 0.9),
      speed_goal(contenders, "cold, all", "mapped", "O_DIRECT loop", 0.7),
      speed_goal(contenders, "cold, one pass", "staged", "O_DIRECT loop", 0.9),
      speed_goal(contenders, "cold, one pass", "staged", "mmap walk", 1.3),
      speed_goal(contenders, "high latency, one pass", "staged", "mmap walk", 2.5),
      speed_goal(contenders, "warm, all", "load_into", "memcpy", 0.85),
  };
  for (const auto& one : contenders) {
    if (one.kind == Kind::automatic) goals.push_back(choice_goal(contenders, one));
  }
  MeasuredValue first{
      .text = "cold, first: open and first element", .unit = "ms", .threshold = 5, .at_least = false};
  if (const auto* const opened = find(contenders, "cold, first", "htensor")) {
    std::vector<double> times;
    for (const double seconds : opened->seconds) times.push_back(seconds * 1e3);
    first.set(times);
  }
  goals.push_back(first);
  return goals;
}

}  // namespace ht::bench
