#include <algorithm>
#include <cstdio>

#include "bench/load/report.hpp"

namespace ht::bench {
namespace {

using Contenders = std::vector<Contender>;

std::optional<double> median_of(const Contenders& contenders, std::string_view cell, std::string_view name) {
  const auto found = std::ranges::find_if(
      contenders, [&](const auto& one) { return one.cell->name == cell && one.name == name; });
  if (found == contenders.end()) return std::nullopt;
  return found->median();
}

// How many times as fast `of` is as `against`.
LoadGoal speed_goal(const Contenders& contenders, const std::string& cell, const std::string& of,
                    const std::string& against, double limit) {
  const auto mine = median_of(contenders, cell, of);
  const auto theirs = median_of(contenders, cell, against);
  LoadGoal goal{.text = cell + ": speed of " + of + " / " + against, .limit = limit};
  if (mine && theirs) goal.value = *theirs / *mine;
  return goal;
}

// Who picks is held against the best of those that it could have picked.
LoadGoal choice_goal(const Contenders& contenders, const Cell& cell) {
  std::optional<double> best;
  for (const auto& one : contenders) {
    if (one.cell != &cell || one.kind != Kind::strategy) continue;
    best = best ? std::min(*best, one.median()) : one.median();
  }
  LoadGoal goal{.text = cell.name + ": speed of automatic / the best strategy", .limit = 0.9};
  const auto mine = median_of(contenders, cell.name, "automatic");
  if (best && mine) goal.value = *best / *mine;
  return goal;
}

}  // namespace

std::vector<LoadGoal> goals_of(const Contenders& contenders) {
  std::vector<LoadGoal> goals{
      speed_goal(contenders, "cold, one pass", "staged", "O_DIRECT loop", 0.9),
      speed_goal(contenders, "cold, one pass", "staged", "mmap walk", 1.3),
      speed_goal(contenders, "far, one pass", "staged", "mmap walk", 2.5),
      speed_goal(contenders, "warm, all", "read", "memcpy", 0.85),
  };
  for (const auto& one : contenders) {
    if (one.kind == Kind::automatic) goals.push_back(choice_goal(contenders, *one.cell));
  }
  LoadGoal first{.text = "cold, first: open and first element", .unit = "ms", .limit = 5, .at_least = false};
  if (const auto seconds = median_of(contenders, "cold, first", "htensor")) first.value = *seconds * 1e3;
  goals.push_back(first);
  return goals;
}

bool print_goals(const std::vector<LoadGoal>& goals) {
  bool good = true;
  for (const auto& goal : goals) {
    const char* const kind = goal.at_least ? "at least" : "at most";
    const std::string unit = goal.unit.empty() ? "" : " " + goal.unit;
    if (!goal.value) {
      std::printf("%s: not measured here, goal %s %.2f%s\n", goal.text.c_str(), kind, goal.limit,
                  unit.c_str());
      continue;
    }
    std::printf("%s = %.3f%s, goal %s %.2f%s: %s\n", goal.text.c_str(), *goal.value, unit.c_str(), kind,
                goal.limit, unit.c_str(), goal.missed() ? "MISSED" : "met");
    good = good && !goal.missed();
  }
  return good;
}

}  // namespace ht::bench
