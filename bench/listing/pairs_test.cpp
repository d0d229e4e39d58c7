#include "bench/listing/pairs.hpp"

#include <gtest/gtest.h>

#include "bench/turns/must.hpp"

namespace ht::pairs_test {
namespace {

using bench::Pairs;

double fail_turn() {
  bench::must(false, "the answer is wrong");
  return 0;
}

Pairs make_pairs(bool smoke = false) {
  Pairs pairs(smoke);
  pairs.add("one", [] { return 1.0; });
  pairs.add("two", [] { return 2.0; });
  pairs.add("wrong", fail_turn);
  return pairs;
}

// Returns what `compare` prints.
std::string printed_by(const Pairs& pairs, const bench::PairGoal& goal, bool expected) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(pairs.compare(std::vector{goal}), expected);
  std::fflush(stdout);
  return ::testing::internal::GetCapturedStdout();
}

TEST(Pairs, compare_by_ratio_or_difference) {
  EXPECT_NE(printed_by(make_pairs(), {"two", "one", 2.0}, true).find("goal at most 2.00: met"),
            std::string::npos);
  EXPECT_NE(printed_by(make_pairs(), {"two", "one", 1.9}, false).find("MISSED"), std::string::npos);
  EXPECT_NE(printed_by(make_pairs(), {"two", "one", 0.9, true}, false).find("0.90 ms: MISSED"),
            std::string::npos);
  EXPECT_EQ(printed_by(make_pairs(), {"two", "one", 0}, true).find("goal"), std::string::npos);
  printed_by(make_pairs(true), {"two", "one", 1.9}, true);
}

TEST(Pairs, name_the_contender_that_failed) {
  const auto of = printed_by(make_pairs(), {"wrong", "one", 1.0}, false);
  EXPECT_NE(of.find("wrong: the answer is wrong\n"), std::string::npos) << of;
  const auto against = printed_by(make_pairs(), {"one", "wrong", 1.0}, false);
  EXPECT_NE(against.find("wrong: the answer is wrong\n"), std::string::npos) << against;
}

TEST(Pairs, refuse_a_goal_without_its_contender) {
  EXPECT_THROW(static_cast<void>(make_pairs().compare(std::vector{bench::PairGoal{"one", "tow", 1.0}})),
               std::runtime_error);
}

}  // namespace
}  // namespace ht::pairs_test
