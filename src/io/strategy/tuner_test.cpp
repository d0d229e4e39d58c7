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

struct Settled {
  FetchMethod way;
  double rate = 0;
  std::uint64_t trial_bytes = 0;
  int trials = 0;
};

// Runs all trials with invented rates, in bytes per second.
Settled settle(Tuner& tuner, const std::function<double(const FetchMethod&)>& rate) {
  Settled settled;
  while (const auto bytes = tuner.trial_bytes()) {
    tuner.record(*bytes, static_cast<double>(*bytes) / rate(tuner.way()));
    settled.trial_bytes += *bytes;
    if (++settled.trials > 1000) break;
  }
  settled.way = tuner.way();
  settled.rate = tuner.rate();
  return settled;
}

TEST(Tuner, chooses_the_fastest_candidate) {
  for (const FetchMethod& best : six) {
    Tuner tuner(six, large, trial);
    const auto settled = settle(tuner, [&](const FetchMethod& way) { return way == best ? 3e9 : 2e9; });
    EXPECT_EQ(settled.way, best);
    EXPECT_NEAR(settled.rate, 3e9, 1);
  }
}

TEST(Tuner, keeps_the_default_unless_another_candidate_is_clearly_faster) {
  Tuner close(six, large, trial);
  EXPECT_EQ(settle(close, [&](const FetchMethod& way) { return way == six[0] ? 2e9 : 2.4e9; }).way, six[0]);
  Tuner equal(six, large, trial);
  EXPECT_EQ(settle(equal, [](const FetchMethod&) { return 2e9; }).way, six[0]);
}

TEST(Tuner, does_not_count_the_first_trial) {
  Tuner tuner(six, large, trial);
  bool first = true;
  const auto settled =
      settle(tuner, [&](const FetchMethod&) { return std::exchange(first, false) ? 1e6 : 2e9; });
  EXPECT_EQ(settled.way, six[0]);
  EXPECT_NEAR(settled.rate, 2e9, 1);
}

TEST(Tuner, is_deterministic) {
  const auto rate = [](const FetchMethod& way) { return 1e9 + 1e8 * way.threads; };
  Tuner first(six, large, trial);
  Tuner second(six, large, trial);
  EXPECT_EQ(settle(first, rate).way, settle(second, rate).way);
}

TEST(Tuner, ignores_noise_of_one_third) {
  int right = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> noise(0.83, 1.17);
    Tuner tuner(six, large, trial);
    const auto settled = settle(tuner, [&](const FetchMethod& way) {
      return (way == FetchMethod{Engine::read_ahead, 2} ? 3e9 : 1.5e9) * noise(random);
    });
    right += settled.way == FetchMethod{Engine::read_ahead, 2} ? 1 : 0;
  }
  EXPECT_EQ(right, 200);
}

TEST(Tuner, spends_at_most_an_eighth_on_trials) {
  for (const std::uint64_t total : {large, 2048 * mib, 1024 * mib, 600 * mib, 512 * mib, 100 * mib, mib}) {
    Tuner tuner(six, total, trial);
    EXPECT_LE(settle(tuner, [](const FetchMethod&) { return 2e9; }).trial_bytes, total / 8);
  }
}

TEST(Tuner, uses_the_default_for_a_small_file) {
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{1}, 1279 * mib}) {
    Tuner tuner(six, total, trial);
    EXPECT_FALSE(tuner.trial_bytes());
    EXPECT_EQ(tuner.way(), six[0]);
    tuner.record(100, 1);
    EXPECT_EQ(tuner.way(), six[0]);
    EXPECT_EQ(tuner.rate(), 100);
  }
  Tuner two(six, 1280 * mib, trial);
  EXPECT_TRUE(two.trial_bytes());
}

TEST(Tuner, ends_with_any_clock) {
  for (const double seconds : {0.0, -1.0, 1e300}) {
    Tuner tuner(six, large, trial);
    int trials = 0;
    while (tuner.trial_bytes() && trials < 1000) {
      tuner.record(trial, seconds);
      ++trials;
    }
    EXPECT_EQ(trials, 1 + 2 * (6 + 3 + 2));
    EXPECT_EQ(tuner.way(), six[0]);
  }
}

TEST(Tuner, includes_the_rest_in_the_rate) {
  Tuner tuner(std::vector<FetchMethod>{{}}, large, trial);
  EXPECT_EQ(tuner.rate(), 0);
  tuner.record(3000, 1);
  tuner.record(1000, 1);
  EXPECT_EQ(tuner.rate(), 2000);
}

}  // namespace
}  // namespace ht::io::tuner_test
