#include "bench/listing/paired_runs.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>

#include "bench/harness/must.hpp"
#include "bench/quantile.hpp"

namespace ht::bench {
namespace {

constexpr int pair_count = 11;

void print(const std::string& name, const char* unit, const std::vector<double>& values) {
  std::printf("%-24s %-24s %9.2f %9.2f %9.2f\n", name.c_str(), unit, quantile(values, 0.5),
              quantile(values, 0.25), quantile(values, 0.75));
}

}  // namespace

bool PairedRuns::compare(const std::vector<PairGoal>& goals) const {
  bool good = true;
  std::printf("%-24s %-24s %9s %9s %9s\n", "", "", "median", "lower q.", "upper q.");
  for (const auto& goal : goals) good = compare(goal) && good;
  return good;
}

const PairedRuns::Contender& PairedRuns::find(const std::string& name) const {
  const auto found = std::ranges::find(contenders_, name, &Contender::name);
  must(found != contenders_.end(), "no contender has the name " + name);
  return *found;
}

bool PairedRuns::compare(const PairGoal& goal) const {
  const std::array<const Contender*, 2> sides{&find(goal.of), &find(goal.against)};
  std::array<std::vector<double>, 2> times;
  std::vector<double> compared;
  for (int pair = 0; pair < (smoke_ ? 1 : pair_count); ++pair) {
    // The order alternates, because a process may leave memory warm for the next one.
    for (const int first : {pair % 2, 1 - pair % 2}) {
      const auto side = static_cast<std::size_t>(first);
      try {
        times[side].push_back(sides[side]->run());
      } catch (const std::exception& error) {
        std::printf("%s: %s\n", sides[side]->name.c_str(), error.what());
        return false;
      }
    }
    const double of = times[0].back();
    const double against = times[1].back();
    compared.push_back(goal.is_difference ? of - against : of / against);
  }
  print(goal.of, "ms", times[0]);
  print(goal.against, "ms", times[1]);
  print(goal.is_difference ? "  difference" : "  ratio", goal.is_difference ? "ms" : "", compared);
  if (goal.threshold == 0) return true;
  // Missed only if the lower quartile is also above the threshold.
  const bool met = quantile(compared, 0.25) <= goal.threshold;
  std::printf("  goal at most %.2f%s: %s\n", goal.threshold, goal.is_difference ? " ms" : "",
              met ? "met" : "MISSED");
  return met || smoke_;
}

}  // namespace ht::bench
