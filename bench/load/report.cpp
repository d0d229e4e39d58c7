#include "bench/load/report.hpp"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace ht::bench {
namespace {

// As bench/load/plot.py knows them.
const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::strategy:
    case Kind::automatic:
    case Kind::given_memory: return "ours";
    case Kind::other: return "other";
    case Kind::limit: return "limit";
  }
  return "";
}

nlohmann::ordered_json json_of(const Contender& contender) {
  return {{"cell", contender.cell->name},     {"contender", contender.name},
          {"kind", name_of(contender.kind)},  {"note", contender.note},
          {"bytes", contender.cell->bytes()}, {"median_s", contender.median()},
          {"best_s", contender.best()},       {"samples_s", contender.seconds}};
}

nlohmann::ordered_json json_of(const LoadGoal& goal) {
  nlohmann::ordered_json json{{"text", goal.text},   {"unit", goal.unit},         {"value", nullptr},
                              {"limit", goal.limit}, {"at_least", goal.at_least}, {"met", nullptr}};
  if (goal.value) {
    json["value"] = *goal.value;
    json["met"] = !goal.missed();
  }
  return json;
}

}  // namespace

void print_cells(const std::vector<Contender>& contenders) {
  const Cell* cell = nullptr;
  for (const auto& one : contenders) {
    if (one.cell != cell) {
      std::printf("\n%-28s %12s %12s %9s\n", one.cell->name.c_str(), "median ms", "best ms", "GB/s");
    }
    cell = one.cell;
    std::printf("  %-26s %12.3f %12.3f ", one.name.c_str(), one.median() * 1e3, one.best() * 1e3);
    if (cell->bytes() > 0) {
      std::printf("%9.2f", static_cast<double>(cell->bytes()) / one.median() / 1e9);
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
                              {"threads", std::thread::hardware_concurrency()},
                              {"direct", nullptr},
                              {"cells", nlohmann::json::array()},
                              {"goals", nlohmann::json::array()}};
  if (report.direct) {
    json["direct"] = {{"depth", report.direct->depth}, {"chunk_bytes", report.direct->chunk_bytes}};
  }
  for (const auto& contender : report.contenders) json["cells"].push_back(json_of(contender));
  for (const auto& goal : report.goals) json["goals"].push_back(json_of(goal));
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.close();
  must(file.good(), "cannot write " + path.string());
}

}  // namespace ht::bench
