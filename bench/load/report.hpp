// What a run has shown: tables and goals for people, JSON for bench/load/plot.py.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/load/runner.hpp"

namespace ht::bench {

struct LoadGoal {
  std::string text;
  std::string unit{};
  /// Nothing where it was not measured here.
  std::optional<double> value{};
  double limit = 0;
  bool at_least = true;

  [[nodiscard]] bool missed() const noexcept { return value && (at_least ? *value < limit : *value > limit); }
};

struct Report {
  std::uint64_t file_bytes = 0;
  std::vector<Contender> contenders;
  std::vector<LoadGoal> goals;
  std::optional<DirectShape> direct;
  int repeats = 0;
};

/// The goals that are ratios and times of contenders.
[[nodiscard]] std::vector<LoadGoal> goals_of(const std::vector<Contender>& contenders);

void print_cells(const std::vector<Contender>& contenders);
/// Whether none was missed.
[[nodiscard]] bool print_goals(const std::vector<LoadGoal>& goals);
void write_json(const std::filesystem::path& path, const Report& report);

}  // namespace ht::bench
