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

/// A figure and its goal.
struct FigureGoal {
  std::string text;
  std::string unit{};
  /// The median of all turns or pairs; nullopt where it was not measured.
  std::optional<double> value{};
  /// The quartiles, where there are several turns or pairs.
  std::optional<double> lower{};
  std::optional<double> upper{};
  double limit = 0;
  bool at_least = true;

  /// The median decides. A better quartile beyond the limit shows that noise may have decided.
  [[nodiscard]] bool missed() const noexcept { return value && (at_least ? *value < limit : *value > limit); }
  /// Median and quartiles of these.
  void set(const std::vector<double>& values);
};

struct Report {
  std::uint64_t file_bytes = 0;
  std::vector<Contender> contenders;
  std::vector<FigureGoal> goals;
  int repeats = 0;
  /// What else there is to know of the run.
  std::vector<std::pair<std::string, std::uint64_t>> facts{};
};

/// Null where the cell has no contender of that name.
[[nodiscard]] const Contender* find(const std::vector<Contender>& contenders, std::string_view cell,
                                    std::string_view name);
/// The contender with the best median among those of a kind; null where the cell has none.
[[nodiscard]] const Contender* best_of(const std::vector<Contender>& contenders, std::string_view cell,
                                       Kind kind);
/// How many times as fast `of` is as `against`, by pairs of turns. Not measured where one is null.
[[nodiscard]] FigureGoal pair_goal(std::string text, const Contender* of, const Contender* against,
                                   double limit);
/// The same by their names.
[[nodiscard]] FigureGoal speed_goal(const std::vector<Contender>& contenders, const std::string& cell,
                                    const std::string& of, const std::string& against, double limit);

void print_cells(const std::vector<Contender>& contenders);
/// Whether none was missed.
[[nodiscard]] bool print_goals(const std::vector<FigureGoal>& goals);
void write_json(const std::filesystem::path& path, const Report& report);
/// All of these, as the options say. Whether no goal was missed, which does not count in a smoke test.
[[nodiscard]] bool publish(const Report& report, const Options& options);

}  // namespace ht::bench
