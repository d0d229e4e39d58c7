#include "bench/listing/paired_runs.hpp"

#include <gtest/gtest.h>

#include "bench/harness/must.hpp"

namespace ht::paired_runs_test {
namespace {

using bench::PairedRuns;

double fail_turn() {
  bench::must(false, "the answer is wrong");
  return 0;
}

PairedRuns make_runs(bool smoke = false) {
  PairedRuns runs(smoke);
  runs.add_contender("one", [] { return 1.0; });
  runs.add_contender("two", [] { return 2.0; });
  runs.add_contender("wrong", fail_turn);
  return runs;
}

// Returns what `compare` prints.
std::string printed_by(const PairedRuns& runs, const bench::PairGoal& goal, bool expected) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(runs.compare(std::vector{goal}), expected);
  std::fflush(stdout);
  return ::testing::internal::GetCapturedStdout();
}

TEST(PairedRuns, compare_by_ratio_or_difference) {
  EXPECT_NE(printed_by(make_runs(), {"two", "one", 2.0}, true).find("goal at most 2.00: met"),
            std::string::npos);
  EXPECT_NE(printed_by(make_runs(), {"two", "one", 1.9}, false).find("MISSED"), std::string::npos);
  EXPECT_NE(printed_by(make_runs(), {"two", "one", 0.9, true}, false).find("0.90 ms: MISSED"),
            std::string::npos);
  EXPECT_EQ(printed_by(make_runs(), {"two", "one", 0}, true).find("goal"), std::string::npos);
  printed_by(make_runs(true), {"two", "one", 1.9}, true);
}

TEST(PairedRuns, name_the_contender_that_failed) {
  const auto of = printed_by(make_runs(), {"wrong", "one", 1.0}, false);
  EXPECT_NE(of.find("wrong: the answer is wrong\n"), std::string::npos) << of;
  const auto against = printed_by(make_runs(), {"one", "wrong", 1.0}, false);
  EXPECT_NE(against.find("wrong: the answer is wrong\n"), std::string::npos) << against;
}

TEST(PairedRuns, refuse_a_goal_without_its_contender) {
  EXPECT_THROW(static_cast<void>(make_runs().compare(std::vector{bench::PairGoal{"one", "tow", 1.0}})),
               std::runtime_error);
}

}  // namespace
}  // namespace ht::paired_runs_test
