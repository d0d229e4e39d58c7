#include "io/strategy/staged_machine.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "testing/state_diagram.hpp"

namespace ht::io::staged::staged_machine_test {
namespace {

Error some_error() { return Error(ErrorCode::read_failed, "test", "it failed"); }

// Returns one value of each state, with a ring that is valid for every event of the transition table.
std::vector<State> states() {
  const Ring ring{.slots = 2, .begun = 2, .in_flight = 2};
  return {Running{ring}, Draining{ring, some_error()}, Done{}, Failed{some_error()}};
}
std::vector<Event> events() {
  return {Begun{},
          BegunRest{},
          NothingLeft{},
          QueueFull{},
          Arrived{0},
          ShortRead{0},
          ReadFailed{some_error()},
          Delivered{},
          StepFailed{some_error()}};
}

bool is_unknown_pair(const Step& step) {
  const auto* const failed = std::get_if<Failed>(&step.next);
  return failed != nullptr && failed->error.rule() == "event_is_valid_in_the_state";
}

TEST(StagedMachine, event_is_valid_in_the_state) {
  int known = 0;
  for (const auto& state : states()) {
    for (const auto& event : events()) {
      const Step next = step(state, event);
      if (!is_unknown_pair(next)) {
        ++known;
        continue;
      }
      const auto& error = std::get<Failed>(next.next).error;
      EXPECT_EQ(error.code(), ErrorCode::bad_state);
      EXPECT_NE(error.message().find(name_of(state)), std::string_view::npos);
      EXPECT_NE(error.message().find(name_of(event)), std::string_view::npos);
      EXPECT_FALSE(next.effect);
    }
  }
  EXPECT_EQ(known, 13);
}

TEST(StagedMachine, final_states_refuse_events) {
  for (const State& state : {State(Done{}), State(Failed{some_error()})}) {
    for (const auto& event : events()) EXPECT_TRUE(is_unknown_pair(step(state, event)));
  }
}

TEST(StagedMachine, reads_before_it_delivers) {
  auto at = start(2);
  EXPECT_EQ(std::get<Begin>(at.effect.value()).slot, 0U);
  at = step(at.next, Begun{});
  EXPECT_EQ(std::get<Begin>(at.effect.value()).slot, 1U);
  at = step(at.next, Begun{});
  EXPECT_TRUE(std::holds_alternative<Await>(at.effect.value()));
  // A chunk that arrives early waits for the chunks before it.
  at = step(at.next, Arrived{1});
  EXPECT_TRUE(std::holds_alternative<Await>(at.effect.value()));
  at = step(at.next, Arrived{0});
  EXPECT_EQ(std::get<Deliver>(at.effect.value()).slot, 0U);
  at = step(at.next, Delivered{});
  EXPECT_EQ(std::get<Begin>(at.effect.value()).slot, 0U);
  at = step(at.next, NothingLeft{});
  EXPECT_EQ(std::get<Deliver>(at.effect.value()).slot, 1U);
  at = step(at.next, Delivered{});
  EXPECT_TRUE(std::holds_alternative<Done>(at.next));
  EXPECT_FALSE(at.effect);
}

TEST(StagedMachine, load_without_ranges_is_done) {
  EXPECT_TRUE(std::holds_alternative<Done>(step(start(3).next, NothingLeft{}).next));
}

TEST(StagedMachine, short_reads_are_continued) {
  const Running running{{.slots = 1, .begun = 1, .in_flight = 1}};
  auto at = step(running, ShortRead{0});
  EXPECT_EQ(std::get<BeginRest>(at.effect.value()).slot, 0U);
  EXPECT_EQ(std::get<Running>(at.next).ring.in_flight, 0U);
  at = step(at.next, BegunRest{});
  EXPECT_EQ(std::get<Running>(at.next).ring.in_flight, 1U);
  EXPECT_EQ(std::get<Running>(at.next).ring.begun, 1U);
}

TEST(StagedMachine, waits_for_reads_in_flight_before_it_fails) {
  auto at = step(Running{{.slots = 3, .begun = 3, .in_flight = 3}}, ReadFailed{some_error()});
  EXPECT_TRUE(std::holds_alternative<Draining>(at.next));
  at = step(at.next, Arrived{1});
  EXPECT_TRUE(std::holds_alternative<Await>(at.effect.value()));
  at = step(at.next, ReadFailed{Error(ErrorCode::internal)});
  // The first error is reported.
  EXPECT_EQ(std::get<Failed>(at.next).error.rule(), "test");
}

TEST(StagedMachine, queue_accepts_a_read) {
  const auto full = step(Running{{.slots = 2}}, QueueFull{});
  EXPECT_EQ(std::get<Failed>(full.next).error.rule(), "queue_accepts_a_read");
  const auto busy = step(Running{{.slots = 2, .begun = 1, .in_flight = 1}}, QueueFull{});
  EXPECT_TRUE(std::holds_alternative<Await>(busy.effect.value()));
}

// Covers every pair of the transition table, from every state of a ring with two slots before the first
// delivery. After a delivery, the slots have exchanged their roles, and the transitions are the same.
TEST(StagedMachine, diagram_matches_the_docs) {
  testing::StateDiagram diagram("Running", {"Done", "Failed"});
  std::vector<State> all;
  for (std::uint32_t begun = 0; begun <= 2; ++begun) {
    for (std::uint32_t in_flight = 0; in_flight <= begun; ++in_flight) {
      for (std::uint64_t filled = 0; filled < 4; ++filled) {
        for (const bool all_begun : {false, true}) {
          const Ring ring{2, begun, 0, in_flight, filled, all_begun};
          all.emplace_back(Running{ring});
          if (in_flight > 0) all.emplace_back(Draining{ring, some_error()});
        }
      }
    }
  }
  for (const auto& state : all) {
    for (const auto& event : events()) {
      const auto* const running = std::get_if<Running>(&state);
      const bool read_completed = std::holds_alternative<Arrived>(event) ||
                                  std::holds_alternative<ShortRead>(event) ||
                                  std::holds_alternative<ReadFailed>(event);
      if (running != nullptr && read_completed && running->ring.in_flight == 0) continue;
      const Step next = step(state, event);
      if (is_unknown_pair(next)) continue;
      diagram.add(name_of(state), name_of(next.next), name_of(event));
    }
  }
  diagram.expect_in_docs();
}

}  // namespace
}  // namespace ht::io::staged::staged_machine_test
