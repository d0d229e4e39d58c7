#include "bench/microbenchmarks.hpp"

#include <benchmark/benchmark.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ht::microbenchmarks_test {
namespace {

// Registered once for all tests.
const bool is_registered = [] {
  for (const char* name : {"a", "b"}) {
    benchmark::RegisterBenchmark(name, [](benchmark::State& state) {
      std::string text;
      for (auto _ : state) benchmark::DoNotOptimize(text.assign("text"));
    });
  }
  return true;
}();

int status_of(std::vector<std::string> words, const bench::Goal& goal) {
  EXPECT_TRUE(is_registered);
  words.insert(words.begin(), "bench_test");
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  return bench::run_and_compare(static_cast<int>(words.size()), arguments.data(), {goal});
}

const std::vector<std::string> brief{"--benchmark_repetitions=1", "--benchmark_min_time=0.001"};

TEST(Microbenchmarks, fails_if_a_goal_is_missed) {
  EXPECT_EQ(status_of(brief, {"a", "b", 1e9}), 0);
  EXPECT_EQ(status_of(brief, {"a", "b", 0}), 1);
  EXPECT_EQ(status_of({"--smoke"}, {"a", "b", 0}), 0);
}

TEST(Microbenchmarks, fails_if_a_goal_names_an_unknown_benchmark) {
  EXPECT_EQ(status_of(brief, {"a", "c", 1e9}), 1);
  EXPECT_EQ(status_of(brief, {"c", "a", 1e9}), 1);
  EXPECT_EQ(status_of({"--smoke"}, {"a", "c", 1e9}), 1);
}

TEST(Microbenchmarks, refuses_unknown_options) {
  EXPECT_EQ(status_of({"--cells", "a"}, {"a", "b", 1e9}), 2);
  EXPECT_EQ(status_of({"--smoke", "--benchmark_filter=a"}, {"a", "b", 1e9}), 2);
}

// The last test, because a filter applies to later runs of the process, too.
TEST(Microbenchmarks, ignores_goals_of_benchmarks_that_a_filter_leaves_out) {
  auto words = brief;
  words.emplace_back("--benchmark_filter=a");
  EXPECT_EQ(status_of(words, {"a", "b", 0}), 0);
}

}  // namespace
}  // namespace ht::microbenchmarks_test
