#include <algorithm>

#include "bench/load/goals.hpp"

namespace ht::bench {
namespace {

using Contenders = std::vector<Contender>;

// Who picks is held against the best of those that it could have picked.
FigureGoal choice_goal(const Contenders& contenders, const Cell& cell) {
  std::optional<double> best;
  for (const auto& one : contenders) {
    if (one.cell != &cell || one.kind != Kind::strategy) continue;
    best = best ? std::min(*best, one.median()) : one.median();
  }
  FigureGoal goal{.text = cell.name + ": speed of automatic / the best strategy", .limit = 0.9};
  const auto mine = median_of(contenders, cell.name, "automatic");
  if (best && mine) goal.value = *best / *mine;
  return goal;
}

}  // namespace

std::vector<FigureGoal> goals_of(const Contenders& contenders) {
  std::vector<FigureGoal> goals{
      speed_goal(contenders, "cold, one pass", "staged", "O_DIRECT loop", 0.9),
      speed_goal(contenders, "cold, one pass", "staged", "mmap walk", 1.3),
      speed_goal(contenders, "far, one pass", "staged", "mmap walk", 2.5),
      speed_goal(contenders, "warm, all", "read", "memcpy", 0.85),
  };
  for (const auto& one : contenders) {
    if (one.kind == Kind::automatic) goals.push_back(choice_goal(contenders, *one.cell));
  }
  FigureGoal first{
      .text = "cold, first: open and first element", .unit = "ms", .limit = 5, .at_least = false};
  if (const auto seconds = median_of(contenders, "cold, first", "htensor")) first.value = *seconds * 1e3;
  goals.push_back(first);
  return goals;
}

}  // namespace ht::bench
