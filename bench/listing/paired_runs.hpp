// Compares two contenders by pairs of turns. The two turns of a pair follow each other, so that a slow phase
// of the machine affects both.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ht::bench {

/// Runs one turn and returns its milliseconds. Throws if the result of the turn is wrong.
using TimedRun = std::function<double()>;

/// `of` takes at most `threshold` times as long as `against`, or, if `is_difference`, at most `threshold`
/// milliseconds longer. With a threshold of 0, the comparison is printed and is not a goal.
struct PairGoal {
  std::string of;
  std::string against;
  double threshold;
  bool is_difference = false;
};

class PairedRuns {
 public:
  /// With `smoke`, compares one pair and accepts a missed goal.
  explicit PairedRuns(bool smoke) : smoke_(smoke) {}

  void add_contender(std::string name, TimedRun run) {
    contenders_.push_back({std::move(name), std::move(run)});
  }

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
