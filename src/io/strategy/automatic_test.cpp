#include "io/strategy/automatic.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace ht::io::choice_test {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

// A file of 4 GiB on a local disk that is not in the page cache and fits into memory.
Facts cold() {
  return {.latency = Source::Latency::near, .bytes = 4 * gib, .cached_bytes = 0, .budget_bytes = 16 * gib};
}

std::string_view code_of(Facts facts) { return choose(facts).code; }

TEST(Choice, depends_on_the_use_of_a_cold_file) {
  auto facts = cold();
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::mapped);
  EXPECT_EQ(code_of(facts), "fits_into_memory");
  facts.use = Strategy::Use::few;
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::mapped);
  EXPECT_EQ(code_of(facts), "few_tensors");
  facts.use = Strategy::Use::one_pass;
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::staged);
  EXPECT_EQ(code_of(facts), "one_pass");
}

TEST(Choice, maps_a_cached_file) {
  for (const auto use : {Strategy::Use::all, Strategy::Use::one_pass}) {
    auto facts = cold();
    facts.use = use;
    facts.cached_bytes = facts.bytes;
    EXPECT_EQ(code_of(facts), "already_cached");
    facts.cached_bytes = 0;
    facts.latency = Source::Latency::memory;
    EXPECT_EQ(code_of(facts), "file_is_memory");
    EXPECT_EQ(choose(facts).strategy, Strategy::Kind::mapped);
  }
}

TEST(Choice, nine_tenths_of_the_bytes_count_as_cached) {
  auto facts = cold();
  facts.use = Strategy::Use::one_pass;
  for (const auto& [bytes, enough] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {1, 1}, {9, 9}, {10, 9}, {19, 18}, {4000, 3600}, {UINT64_MAX, UINT64_MAX - UINT64_MAX / 10}}) {
    facts.bytes = bytes;
    facts.cached_bytes = enough;
    EXPECT_EQ(code_of(facts), "already_cached") << bytes;
    facts.cached_bytes = enough - 1;
    EXPECT_EQ(code_of(facts), "one_pass") << bytes;
  }
}

TEST(Choice, treats_an_unknown_page_cache_as_empty_and_reports_it) {
  for (const auto use : {Strategy::Use::all, Strategy::Use::one_pass}) {
    auto facts = cold();
    facts.use = use;
    const auto known = choose(facts);
    facts.cached_bytes = std::nullopt;
    const auto unknown = choose(facts);
    EXPECT_EQ(unknown.code, known.code);
    EXPECT_EQ(unknown.strategy, known.strategy);
    EXPECT_TRUE(unknown.reason.starts_with(known.reason));
    EXPECT_NE(unknown.reason.find("unknown"), std::string::npos);
    facts.bytes = 0;  // an unknown page cache does not count as cached, even for 0 bytes
    EXPECT_NE(choose(facts).code, "already_cached");
  }
}

TEST(Choice, streams_a_file_larger_than_memory) {
  auto facts = cold();
  facts.budget_bytes = 3 * gib;
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::staged);
  EXPECT_EQ(code_of(facts), "larger_than_memory");
  // A budget set by the caller limits cached pages too; an estimate of the free memory does not.
  facts.cached_bytes = facts.bytes;
  EXPECT_EQ(code_of(facts), "already_cached");
  facts.budget_is_set = true;
  EXPECT_EQ(code_of(facts), "larger_than_memory");
  facts.latency = Source::Latency::memory;
  EXPECT_EQ(code_of(facts), "larger_than_memory");
  facts.budget_is_set = false;
  EXPECT_EQ(code_of(facts), "file_is_memory");
  // `memory_bytes` includes the padding of `read`. If only the padding exceeds the budget, the choice is to
  // map.
  facts = cold();
  facts.latency = Source::Latency::far;
  facts.budget_bytes = facts.bytes;
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::read);
  facts.memory_bytes = facts.bytes + 1;
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::mapped);
  facts.can_map = false;
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::staged);
}

TEST(Choice, reads_a_network_file) {
  auto facts = cold();
  facts.latency = Source::Latency::far;
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::read);
  EXPECT_EQ(code_of(facts), "slow_file_system");
}

TEST(Choice, never_maps_a_source_that_cannot_be_mapped) {
  auto facts = cold();
  facts.can_map = false;
  EXPECT_EQ(code_of(facts), "no_mapping_read");
  facts.budget_bytes = 0;
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::staged);
  facts.use = Strategy::Use::one_pass;
  EXPECT_EQ(code_of(facts), "no_mapping_streamed");
  EXPECT_EQ(choose(facts).strategy, Strategy::Kind::staged);
}

TEST(Choice, always_has_a_reason) {
  std::set<std::string_view> codes;
  for (const auto latency : {Source::Latency::near, Source::Latency::memory, Source::Latency::far}) {
    for (const auto use : {Strategy::Use::few, Strategy::Use::all, Strategy::Use::one_pass}) {
      for (const std::uint64_t cached : {std::uint64_t{0}, 4 * gib}) {
        for (const std::uint64_t memory : {std::uint64_t{0}, 16 * gib}) {
          for (const bool can_map : {true, false}) {
            const auto choice = choose({.latency = latency,
                                        .bytes = 4 * gib,
                                        .cached_bytes = cached,
                                        .memory_bytes = 4 * gib,
                                        .budget_bytes = memory,
                                        .can_map = can_map,
                                        .use = use});
            EXPECT_FALSE(choice.reason.empty());
            EXPECT_EQ(choice.strategy == Strategy::Kind::mapped && !can_map, false);
            EXPECT_NE(to_string(choice.strategy), "unknown");
            codes.insert(choice.code);
          }
        }
      }
    }
  }
  EXPECT_EQ(codes.size(), 9U);
}

}  // namespace
}  // namespace ht::io::choice_test
