// `htensor ls` as a whole process, from start to exit, with output to /dev/null: safetensors of three sizes,
// an IRPA, and a Llama GGUF with its vocabulary. Interleaved pairs compare it with an empty process, with
// simdjson's DOM parse of the same header in this process or in another, and IRPA with safetensors.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/catalog/headers.hpp"
#include "bench/catalog/task.hpp"
#include "bench/process.hpp"

namespace {

using ht::Result;
using ht::bench::run_process;

// Returns the milliseconds of one turn; nullopt if its output is wrong.
using Turn = std::function<std::optional<double>()>;

struct Spread {
  double lower = 0;
  double median = 0;
  double upper = 0;
};

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.25), at(0.5), at(0.75)};
}

// Compares two turns, by their ratio or by their difference. A limit of 0 only prints the ratio.
struct Goal {
  std::string of;
  std::string against;
  double limit;
  bool is_difference = false;
};

struct Contender {
  std::string name;
  Turn turn;
};

// Returns the median of several runs, for processes that take a few milliseconds.
Turn process(std::vector<std::string> command, int runs) {
  return [command = std::move(command), runs]() -> std::optional<double> {
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
      const auto spent = run_process(command);
      if (!spent) return std::nullopt;
      times.push_back(spent->wall_ms);
    }
    return spread_of(times).median;
  };
}

Turn dom_parse(std::string padded_text, std::size_t members) {
  const auto text = std::make_shared<const std::string>(std::move(padded_text));
  return [text, members]() -> std::optional<double> {
    const auto begin = std::chrono::steady_clock::now();
    const auto found = ht::bench::parse_by_simdjson({text->data(), text->size() - ht::bench::json_padding});
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    return found == members ? std::optional(took.count()) : std::nullopt;
  };
}

std::size_t lines_with(const std::filesystem::path& path, std::string_view word) {
  std::ifstream file(path);
  std::size_t lines = 0;
  for (std::string line; std::getline(file, line);) lines += line.find(word) != std::string::npos ? 1 : 0;
  return lines;
}

class Listing {
 public:
  Listing(std::filesystem::path folder, bool smoke) : folder_(std::move(folder)), smoke_(smoke) {}

  Result<void> prepare() {
    add("empty process", process({HT_EMPTY_PROCESS}, short_runs));
    HT_TRY(add_safetensors("291", 291, short_runs));
    HT_TRY(add_safetensors("60,000", smoke_ ? 600 : 60'000, 1));
    HT_TRY(add_safetensors("600,000", smoke_ ? 6'000 : 600'000, 1));
    HT_TRY(add_file("ls IRPA, 60,000", "experts.irpa", "irpa",
                    ht::bench::expert_catalog(smoke_ ? 600 : 60'000), 1));
    HT_TRY(add_file("ls Llama GGUF", "llama.gguf", "gguf", ht::bench::llama_catalog(), short_runs));
    return {};
  }

  // Returns true if all outputs were correct and all goals were met.
  [[nodiscard]] bool compare(const std::vector<Goal>& goals) {
    bool good = true;
    std::printf("%-24s %-24s %9s %9s %9s\n", "", "", "median", "lower q.", "upper q.");
    for (const auto& goal : goals) good = compare(goal) && good;
    return good;
  }

 private:
  static constexpr int short_runs = 9;

  void add(std::string name, Turn turn) { contenders_.push_back({std::move(name), std::move(turn)}); }

  // Writes the file and adds `ls` of it. Checks once that the output has one line per tensor.
  Result<std::vector<std::byte>> add_file(const std::string& name, const std::string& file,
                                          std::string_view format, const Result<ht::Catalog>& catalog,
                                          int runs) {
    const auto path = folder_ / file;
    auto header = HT_TRY(ht::bench::make_file(path, format, HT_TRY(catalog)));
    const std::vector<std::string> command{HT_PROGRAM, "ls", path.string()};
    const auto output = folder_ / "output";
    if (!run_process(command, output) || lines_with(output, ".weight") != catalog->size())
      return ht::fail(
          ht::Error(ht::ErrorCode::internal, "every_tensor_is_listed", "ls of " + file + " is incomplete"));
    add(name, process(command, runs));
    return header;
  }

  Result<void> add_safetensors(const std::string& size, std::size_t tensors, int runs) {
    const auto file = std::to_string(tensors) + ".safetensors";
    const auto header =
        HT_TRY(add_file("ls " + size, file, "safetensors", ht::bench::expert_catalog(tensors), runs));
    std::string text(reinterpret_cast<const char*>(header.data()) + 8, header.size() - 8);
    text.resize(text.size() + ht::bench::json_padding);
    add("DOM " + size, dom_parse(std::move(text), tensors));
    add("DOM process " + size, process({HT_DOM_PROCESS, (folder_ / file).string()}, runs));
    return {};
  }

  [[nodiscard]] const Turn& turn(const std::string& name) const {
    return std::ranges::find(contenders_, name, &Contender::name)->turn;
  }

  bool compare(const Goal& goal) {
    std::vector<double> of;
    std::vector<double> against;
    std::vector<double> compared;
    for (int pair = 0; pair < (smoke_ ? 1 : pairs); ++pair) {
      // The order alternates, because a process may leave memory warm for the next one.
      std::array<std::optional<double>, 2> times;
      for (const int side : {pair % 2, 1 - pair % 2})
        times[static_cast<std::size_t>(side)] = turn(side == 0 ? goal.of : goal.against)();
      if (!times[0] || !times[1]) {
        std::printf("%s: the answer is wrong\n", goal.of.c_str());
        return false;
      }
      of.push_back(*times[0]);
      against.push_back(*times[1]);
      compared.push_back(goal.is_difference ? *times[0] - *times[1] : *times[0] / *times[1]);
    }
    print(goal.of, "ms", spread_of(of));
    print(goal.against, "ms", spread_of(against));
    const Spread spread = spread_of(compared);
    print(goal.is_difference ? "  difference" : "  ratio", goal.is_difference ? "ms" : "", spread);
    if (goal.limit == 0) return true;
    // Missed only if the lower quartile is also above the limit.
    const bool met = spread.lower <= goal.limit;
    std::printf("  goal at most %.2f%s: %s\n", goal.limit, goal.is_difference ? " ms" : "",
                met ? "met" : "MISSED");
    return met || smoke_;
  }

  static void print(const std::string& name, std::string_view unit, const Spread& spread) {
    std::printf("%-24s %-24s %9.2f %9.2f %9.2f\n", name.c_str(), std::string(unit).c_str(), spread.median,
                spread.lower, spread.upper);
  }

  static constexpr int pairs = 11;
  std::filesystem::path folder_;
  bool smoke_;
  std::vector<Contender> contenders_;
};

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc == 2 && std::string_view(argv[1]) == "--smoke";
  std::string folder = (std::filesystem::temp_directory_path() / "htensor-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 2;
  Listing listing(folder, smoke);
  const auto prepared = listing.prepare();
  if (!prepared) std::fprintf(stderr, "%s\n", to_string(prepared.error()).c_str());
  // docs/benchmarks.md explains the limits.
  const bool good = prepared && listing.compare({{"ls 291", "empty process", 0.9, true},
                                                 {"ls 60,000", "DOM 60,000", 4.0},
                                                 {"ls 600,000", "DOM 600,000", 2.1},
                                                 {"ls 60,000", "DOM process 60,000", 0},
                                                 {"ls 600,000", "DOM process 600,000", 0},
                                                 {"ls IRPA, 60,000", "ls 60,000", 1.0},
                                                 {"ls Llama GGUF", "empty process", 3.8}});
  std::filesystem::remove_all(folder);
  return !prepared ? 2 : good ? 0 : 1;
}
