// Results of a run: tables and goals as text, JSON for plot.py.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/harness/options.hpp"
#include "bench/harness/runner.hpp"

namespace ht::bench {

/// A measured value, and its goal if it has one.
struct MeasuredValue {
  std::string text;
  std::string unit{};
  /// The median of all turns or pairs, or a single measurement; nullopt if not measured.
  std::optional<double> value{};
  /// The quartiles, if there are several turns or pairs.
  std::optional<double> lower{};
  std::optional<double> upper{};
  /// The goal; nullopt for a value without a goal.
  std::optional<double> threshold{};
  /// True if the value must be at least the threshold, false if it must be at most the threshold.
  bool at_least = true;

  /// Returns true if `value` misses the threshold. The quartiles have no effect; they show the reader of the
  /// report how much the values vary.
  [[nodiscard]] bool is_missed() const noexcept {
    return value && threshold && (at_least ? *value < *threshold : *value > *threshold);
  }
  /// Sets the median and the quartiles of these values.
  void set(const std::vector<double>& values);
};

struct Report {
  std::uint64_t file_bytes = 0;
  std::vector<Contender> contenders;
  /// Values with goals, and values that are only printed with them.
  std::vector<MeasuredValue> goals;
  int repeats = 0;
  /// Additional facts of the run.
  std::vector<std::pair<std::string, std::uint64_t>> facts{};
};

/// Returns null if the cell has no contender of that name.
[[nodiscard]] const Contender* find(const std::vector<Contender>& contenders, std::string_view cell,
                                    std::string_view name);
/// Returns the contender of a kind with the best median; null if the cell has none.
[[nodiscard]] const Contender* best_of(const std::vector<Contender>& contenders, std::string_view cell,
                                       Kind kind);
/// The speed of `of` divided by that of `against`, by pairs of turns. Not measured if one of them is null.
[[nodiscard]] MeasuredValue pair_goal(std::string text, const Contender* of, const Contender* against,
                                      std::optional<double> threshold);
/// As `pair_goal`, for two contenders of a cell, found by name.
[[nodiscard]] MeasuredValue speed_goal(const std::vector<Contender>& contenders, const std::string& cell,
                                       const std::string& of, const std::string& against, double threshold);

void print_cells(const std::vector<Contender>& contenders);
/// Returns true if all goals were met.
[[nodiscard]] bool print_goals(const std::vector<MeasuredValue>& goals);
void write_json(const std::filesystem::path& path, const Report& report);
/// Prints and writes everything that the options select. Returns true if all goals were met or in a smoke
/// test.
[[nodiscard]] bool publish(const Report& report, const Options& options);

}  // namespace ht::bench
