#include "bench/harness/report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "bench/harness/must.hpp"
#include "bench/quantile.hpp"

namespace ht::bench {
namespace {

// Names that bench/plot_common.py expects.
const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::strategy:
    case Kind::automatic:
    case Kind::ours: return "ours";
    case Kind::other: return "other";
    case Kind::limit: return "limit";
  }
  return "";
}

nlohmann::ordered_json json_of(const Contender& contender) {
  return {{"cell", contender.cell->name}, {"contender", contender.name},    {"kind", name_of(contender.kind)},
          {"note", contender.note},       {"bytes", contender.cell->bytes}, {"median_s", contender.median()},
          {"best_s", contender.best()},   {"samples_s", contender.seconds}};
}

nlohmann::ordered_json json_of(const MeasuredValue& goal) {
  nlohmann::ordered_json json{{"text", goal.text},         {"unit", goal.unit}, {"value", nullptr},
                              {"lower", nullptr},          {"upper", nullptr},  {"limit", nullptr},
                              {"at_least", goal.at_least}, {"met", nullptr}};
  if (goal.value) json["value"] = *goal.value;
  if (goal.threshold) json["limit"] = *goal.threshold;
  if (goal.value && goal.threshold) json["met"] = !goal.is_missed();
  if (goal.lower) json["lower"] = *goal.lower;
  if (goal.upper) json["upper"] = *goal.upper;
  return json;
}

}  // namespace

void MeasuredValue::set(const std::vector<double>& values) {
  if (values.empty()) return;
  value = quantile(values, 0.5);
  if (values.size() < 2) return;
  lower = quantile(values, 0.25);
  upper = quantile(values, 0.75);
}

const Contender* find(const std::vector<Contender>& contenders, std::string_view cell,
                      std::string_view name) {
  const auto found = std::ranges::find_if(
      contenders, [&](const auto& one) { return one.cell->name == cell && one.name == name; });
  return found == contenders.end() ? nullptr : &*found;
}

const Contender* best_of(const std::vector<Contender>& contenders, std::string_view cell, Kind kind) {
  const Contender* best = nullptr;
  for (const auto& one : contenders) {
    if (one.cell->name != cell || one.kind != kind) continue;
    if (best == nullptr || one.median() < best->median()) best = &one;
  }
  return best;
}

MeasuredValue pair_goal(std::string text, const Contender* of, const Contender* against,
                        std::optional<double> threshold) {
  MeasuredValue goal{.text = std::move(text), .threshold = threshold};
  if (of == nullptr || against == nullptr) return goal;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(of->seconds.size(), against->seconds.size()); ++i) {
    ratios.push_back(against->seconds[i] / of->seconds[i]);
  }
  goal.set(ratios);
  return goal;
}

MeasuredValue speed_goal(const std::vector<Contender>& contenders, const std::string& cell,
                         const std::string& of, const std::string& against, double threshold) {
  return pair_goal(cell + ": speed of " + of + " / " + against, find(contenders, cell, of),
                   find(contenders, cell, against), threshold);
}

bool print_goals(const std::vector<MeasuredValue>& goals) {
  bool good = true;
  for (const auto& goal : goals) {
    const std::string unit = goal.unit.empty() ? "" : " " + goal.unit;
    if (goal.value) {
      std::printf("%s = %.3f%s", goal.text.c_str(), *goal.value, unit.c_str());
      if (goal.lower && goal.upper) std::printf(" (quartiles %.3f to %.3f)", *goal.lower, *goal.upper);
    } else {
      std::printf("%s: not measured here", goal.text.c_str());
    }
    if (goal.threshold) {
      std::printf(", goal %s %.2f%s", goal.at_least ? "at least" : "at most", *goal.threshold, unit.c_str());
      if (goal.value) std::printf(": %s", goal.is_missed() ? "MISSED" : "met");
    }
    std::printf("\n");
    good = good && !goal.is_missed();
  }
  return good;
}

void print_cells(const std::vector<Contender>& contenders) {
  const Cell* cell = nullptr;
  for (const auto& one : contenders) {
    if (one.cell != cell) {
      std::printf("\n%-28s %12s %12s %9s\n", one.cell->name.c_str(), "median ms", "best ms", "GB/s");
    }
    cell = one.cell;
    // Times in nanoseconds need more digits.
    const int digits = one.median() < 1e-5 ? 6 : 3;
    std::printf("  %-26s %12.*f %12.*f ", one.name.c_str(), digits, one.median() * 1e3, digits,
                one.best() * 1e3);
    if (cell->bytes > 0) {
      std::printf("%9.2f", static_cast<double>(cell->bytes) / one.median() / 1e9);
    } else {
      std::printf("%9s", "");
    }
    std::printf("%s%s\n", one.note.empty() ? "" : "  ", one.note.c_str());
  }
  std::printf("\n");
}

void write_json(const std::filesystem::path& path, const Report& report) {
  nlohmann::ordered_json json{{"file_bytes", report.file_bytes},
                              {"repeats", report.repeats},
                              {"threads", std::thread::hardware_concurrency()}};
  for (const auto& [name, number] : report.facts) json[name] = number;
  json["cells"] = nlohmann::json::array();
  json["goals"] = nlohmann::json::array();
  for (const auto& contender : report.contenders) json["cells"].push_back(json_of(contender));
  for (const auto& goal : report.goals) json["goals"].push_back(json_of(goal));
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  must(file.good(), "cannot write " + path.string());
}

bool publish(const Report& report, const Options& options) {
  print_cells(report.contenders);
  if (!options.json.empty()) write_json(options.json, report);
  // A smoke test must not depend on time.
  return options.smoke || print_goals(report.goals);
}

}  // namespace ht::bench
