#include "bench/microbenchmarks.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "bench/harness/must.hpp"

namespace ht::bench {
namespace {

// Prints as usual and records the best time of each benchmark, in nanoseconds.
class BestOf final : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const auto& run : runs) {
      failed_ = failed_ || run.error_occurred;
      if (run.error_occurred)
        std::fprintf(stderr, "%s: %s\n", run.benchmark_name().c_str(), run.error_message.c_str());
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      const double time = run.real_accumulated_time / static_cast<double>(run.iterations) * 1e9;
      const auto [place, fresh] = best_.emplace(run.run_name.function_name, time);
      if (!fresh) place->second = std::min(place->second, time);
    }
  }

  [[nodiscard]] bool has_failed() const { return failed_; }
  [[nodiscard]] const std::map<std::string, double>& best() const { return best_; }

 private:
  std::map<std::string, double> best_;
  bool failed_ = false;
};

}  // namespace

int run_and_compare(int argc, char** argv, const std::vector<Goal>& goals) {
  const bool smoke = is_smoke(argc, argv);
  // Turns are interleaved, so that a slow phase of the machine affects all contenders.
  std::vector<std::string> words{argv[0], "--benchmark_enable_random_interleaving=true",
                                 smoke ? "--benchmark_repetitions=1" : "--benchmark_repetitions=15",
                                 smoke ? "--benchmark_min_time=0.001" : "--benchmark_min_time=0.05"};
  if (!smoke) words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  BestOf reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);

  std::printf("%-32s %14s\n", "benchmark", "best ns");
  for (const auto& [name, time_ns] : reporter.best()) std::printf("%-32s %14.1f\n", name.c_str(), time_ns);
  const bool is_filtered = !benchmark::GetBenchmarkFilter().empty();
  bool missed = false;
  bool unknown = false;
  for (const auto& goal : goals) {
    const auto of = reporter.best().find(goal.of);
    const auto against = reporter.best().find(goal.against);
    if (of == reporter.best().end() || against == reporter.best().end()) {
      if (is_filtered) continue;
      std::fprintf(stderr, "%s / %s: a benchmark of this goal was not measured\n", goal.of.c_str(),
                   goal.against.c_str());
      unknown = true;
      continue;
    }
    const double ratio = of->second / against->second;
    const bool met = ratio <= goal.threshold;
    missed = missed || !met;
    std::printf("%s / %s = %.3f, goal at most %.2f: %s\n", goal.of.c_str(), goal.against.c_str(), ratio,
                goal.threshold, met ? "met" : "MISSED");
  }
  return reporter.has_failed() || unknown || (missed && !smoke) ? 1 : 0;
}

}  // namespace ht::bench
