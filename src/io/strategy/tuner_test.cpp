#include "io/strategy/parallel_pass.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <utility>

namespace ht::io::tuner_test {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t trial = 32 * mib;
constexpr std::uint64_t large = 8192 * mib;

const std::vector<FetchMethod> six{{Engine::populate, 2}, {Engine::read_ahead, 1}, {Engine::populate, 1},
                                   {Engine::populate, 4}, {Engine::read_ahead, 2}, {Engine::read_ahead, 4}};

struct Outcome {
  FetchMethod method;
  double rate = 0;
  std::uint64_t trial_bytes = 0;
  int trials = 0;
};

// Runs all trials with invented rates, in bytes per second.
Outcome run_trials(Tuner& tuner, const std::function<double(const FetchMethod&)>& rate) {
  Outcome outcome;
  while (const auto bytes = tuner.trial_bytes()) {
    tuner.record(*bytes, static_cast<double>(*bytes) / rate(tuner.method()));
    outcome.trial_bytes += *bytes;
    if (++outcome.trials > 1000) break;
  }
  outcome.method = tuner.method();
  outcome.rate = tuner.rate();
  return outcome;
}

TEST(Tuner, chooses_the_fastest_candidate) {
  for (const FetchMethod& best : six) {
    Tuner tuner(six, large, trial);
    const auto outcome =
        run_trials(tuner, [&](const FetchMethod& method) { return method == best ? 3e9 : 2e9; });
    EXPECT_EQ(outcome.method, best);
    EXPECT_NEAR(outcome.rate, 3e9, 1);
  }
}

TEST(Tuner, keeps_the_default_unless_another_candidate_is_clearly_faster) {
  Tuner close(six, large, trial);
  EXPECT_EQ(
      run_trials(close, [&](const FetchMethod& method) { return method == six[0] ? 2e9 : 2.4e9; }).method,
      six[0]);
  Tuner equal(six, large, trial);
  EXPECT_EQ(run_trials(equal, [](const FetchMethod&) { return 2e9; }).method, six[0]);
}

TEST(Tuner, does_not_count_the_first_trial) {
  Tuner tuner(six, large, trial);
  bool first = true;
  const auto outcome =
      run_trials(tuner, [&](const FetchMethod&) { return std::exchange(first, false) ? 1e6 : 2e9; });
  EXPECT_EQ(outcome.method, six[0]);
  EXPECT_NEAR(outcome.rate, 2e9, 1);
}

TEST(Tuner, is_deterministic) {
  const auto rate = [](const FetchMethod& method) { return 1e9 + 1e8 * method.threads; };
  Tuner first(six, large, trial);
  Tuner second(six, large, trial);
  EXPECT_EQ(run_trials(first, rate).method, run_trials(second, rate).method);
}

TEST(Tuner, ignores_noise_of_17_percent) {
  int right = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> noise(0.83, 1.17);
    Tuner tuner(six, large, trial);
    const auto outcome = run_trials(tuner, [&](const FetchMethod& method) {
      return (method == FetchMethod{Engine::read_ahead, 2} ? 3e9 : 1.5e9) * noise(random);
    });
    right += outcome.method == FetchMethod{Engine::read_ahead, 2} ? 1 : 0;
  }
  EXPECT_EQ(right, 200);
}

TEST(Tuner, spends_at_most_an_eighth_on_trials) {
  for (const std::uint64_t total : {large, 2048 * mib, 1024 * mib, 600 * mib, 512 * mib, 100 * mib, mib}) {
    Tuner tuner(six, total, trial);
    EXPECT_LE(run_trials(tuner, [](const FetchMethod&) { return 2e9; }).trial_bytes, total / 8);
  }
}

TEST(Tuner, uses_the_default_for_a_small_file) {
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{1}, 1279 * mib}) {
    Tuner tuner(six, total, trial);
    EXPECT_FALSE(tuner.trial_bytes());
    EXPECT_EQ(tuner.method(), six[0]);
    tuner.record(100, 1);
    EXPECT_EQ(tuner.method(), six[0]);
    EXPECT_EQ(tuner.rate(), 100);
  }
  Tuner two(six, 1280 * mib, trial);
  EXPECT_TRUE(two.trial_bytes());
}

TEST(Tuner, ends_for_any_measured_time) {
  for (const double seconds : {0.0, -1.0, 1e300}) {
    Tuner tuner(six, large, trial);
    int trials = 0;
    while (tuner.trial_bytes() && trials < 1000) {
      tuner.record(trial, seconds);
      ++trials;
    }
    EXPECT_EQ(trials, 1 + 2 * (6 + 3 + 2));
    EXPECT_EQ(tuner.method(), six[0]);
  }
}

TEST(Tuner, rate_includes_bytes_after_the_trials) {
  Tuner tuner(std::vector<FetchMethod>{{}}, large, trial);
  EXPECT_EQ(tuner.rate(), 0);
  tuner.record(3000, 1);
  tuner.record(1000, 1);
  EXPECT_EQ(tuner.rate(), 2000);
}

}  // namespace
}  // namespace ht::io::tuner_test
