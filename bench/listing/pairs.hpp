// Interleaved pairs of turns: compares each with its partner, so that a slow phase of the machine affects
// both.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ht::bench {

/// Runs one turn and returns its milliseconds. Throws if the result of the turn is wrong.
using TimedRun = std::function<double()>;

/// Compares two contenders, by their ratio or by their difference. A limit of 0 only prints the ratio.
struct PairGoal {
  std::string of;
  std::string against;
  double limit;
  bool is_difference = false;
};

class Pairs {
 public:
  /// With `smoke`, compares one pair and accepts a missed goal.
  explicit Pairs(bool smoke) : smoke_(smoke) {}

  void add(std::string name, TimedRun run) { contenders_.push_back({std::move(name), std::move(run)}); }

  /// Prints all comparisons. A contender that fails is named, and the next goal is compared. Returns true if
  /// all results were right and all goals were met. Throws if a goal names an unknown contender.
  [[nodiscard]] bool compare(const std::vector<PairGoal>& goals) const;

 private:
  struct Contender {
    std::string name;
    TimedRun run;
  };

  [[nodiscard]] const Contender& find(const std::string& name) const;
  [[nodiscard]] bool compare(const PairGoal& goal) const;

  bool smoke_;
  std::vector<Contender> contenders_;
};

}  // namespace ht::bench
