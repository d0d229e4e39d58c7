// What a run has shown: tables and goals for people, JSON for plot.py.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/load/options.hpp"
#include "bench/load/runner.hpp"

namespace ht::bench {

/// A figure, and what it should be.
struct FigureGoal {
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
  std::vector<FigureGoal> goals;
  int repeats = 0;
  /// What else there is to know of the run.
  std::vector<std::pair<std::string, std::uint64_t>> facts{};
};

/// Nothing where nobody of that name is in the cell.
[[nodiscard]] std::optional<double> median_of(const std::vector<Contender>& contenders, std::string_view cell,
                                              std::string_view name);
/// How many times as fast `of` is as `against`.
[[nodiscard]] FigureGoal speed_goal(const std::vector<Contender>& contenders, const std::string& cell,
                                    const std::string& of, const std::string& against, double limit);

void print_cells(const std::vector<Contender>& contenders);
/// Whether none was missed.
[[nodiscard]] bool print_goals(const std::vector<FigureGoal>& goals);
void write_json(const std::filesystem::path& path, const Report& report);
/// All of these, as the options say. Whether no goal was missed, which does not count in a smoke test.
[[nodiscard]] bool publish(const Report& report, const Options& options);

}  // namespace ht::bench
