#include "model/residency/residency_machine.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "testing/state_diagram.hpp"

namespace ht::tensor_state::residency_machine_test {
namespace {

std::shared_ptr<const Error> some_error() {
  return std::make_shared<const Error>(ErrorCode::read_failed, "test", "it failed");
}

std::vector<State> states() {
  return {Unbound{}, Mapped{}, Loading{}, Resident{}, Evicted{}, Failed{some_error()}};
}
std::vector<Event> events() {
  return {Map{},      Load{},       Evict{},       MapDone{},
          LoadDone{}, AdviseDone{}, ReleaseDone{}, RequestFailed{some_error()}};
}

bool is_unknown_pair(const Step& step) {
  return step.refusal && step.refusal->rule() == "event_is_valid_in_the_state";
}

TEST(ResidencyMachine, event_is_valid_in_the_state) {
  std::set<std::pair<std::string_view, std::string_view>> known;
  for (const auto& state : states()) {
    for (const auto& event : events()) {
      const Step next = step(state, event);
      if (!is_unknown_pair(next)) {
        known.emplace(name_of(state), name_of(event));
        continue;
      }
      EXPECT_TRUE(std::holds_alternative<Failed>(next.next));
      EXPECT_EQ(next.refusal->code(), ErrorCode::bad_state);
      EXPECT_NE(next.refusal->message().find(name_of(state)), std::string_view::npos);
      EXPECT_NE(next.refusal->message().find(name_of(event)), std::string_view::npos);
      EXPECT_FALSE(next.effect);
    }
  }
  EXPECT_EQ(known.size(), 33U);
}

TEST(ResidencyMachine, tensor_can_be_mapped_loaded_evicted_and_mapped_again) {
  auto at = step(Unbound{}, Map{});
  EXPECT_EQ(at.effect, Request::map);
  at = step(at.next, MapDone{});
  EXPECT_EQ(residence_of(at.next), TensorResidency::Residence::mapped);
  at = step(at.next, Load{});
  EXPECT_EQ(at.effect, Request::load);
  const auto owner = std::make_shared<const int>(7);
  at = step(at.next, LoadDone{{{}, owner}, nullptr});
  EXPECT_EQ(residence_of(at.next), TensorResidency::Residence::resident);
  EXPECT_EQ(std::get<Resident>(at.next).memory.owner, owner);
  at = step(at.next, Evict{});
  EXPECT_EQ(at.effect, Request::release);
  EXPECT_EQ(residence_of(at.next), TensorResidency::Residence::resident);
  at = step(at.next, ReleaseDone{});
  EXPECT_EQ(residence_of(at.next), TensorResidency::Residence::evicted);
  at = step(step(at.next, Map{}).next, MapDone{});
  EXPECT_EQ(residence_of(at.next), TensorResidency::Residence::mapped);
}

TEST(ResidencyMachine, eviction_drops_pages_and_keeps_the_mapping) {
  auto at = step(Mapped{}, Evict{});
  EXPECT_EQ(at.effect, Request::drop_pages);
  at = step(at.next, AdviseDone{});
  EXPECT_EQ(residence_of(at.next), TensorResidency::Residence::mapped);
  at = step(at.next, RequestFailed{some_error()});
  EXPECT_EQ(residence_of(at.next), TensorResidency::Residence::mapped);
  EXPECT_EQ(at.refusal->rule(), "test");
}

TEST(ResidencyMachine, memory_in_use_stays_resident) {
  const auto owner = std::make_shared<const int>(7);
  const auto at = step(Resident{{{}, owner}, nullptr}, RequestFailed{some_error()});
  EXPECT_EQ(std::get<Resident>(at.next).memory.owner, owner);
  EXPECT_EQ(at.refusal->rule(), "test");
}

TEST(ResidencyMachine, failed_load_can_be_repeated) {
  const auto at = step(Loading{}, RequestFailed{some_error()});
  EXPECT_EQ(std::get<Failed>(at.next).error->rule(), "test");
  const State failed = at.next;
  EXPECT_EQ(residence_of(step(failed, Load{}).next), TensorResidency::Residence::loading);
  EXPECT_EQ(residence_of(step(step(failed, Map{}).next, MapDone{}).next), TensorResidency::Residence::mapped);
}

TEST(ResidencyMachine, tensor_that_was_never_resident_is_not_evicted) {
  for (const State& state : {State(Unbound{}), State(Mapped{}), State(Failed{some_error()})}) {
    const auto at = step(state, Evict{});
    EXPECT_EQ(at.effect, Request::drop_pages);
    EXPECT_EQ(residence_of(step(at.next, AdviseDone{}).next), residence_of(state)) << name_of(state);
  }
}

TEST(ResidencyMachine, tensor_is_not_being_loaded) {
  for (const Event& event : {Event(Evict{}), Event(Load{})}) {
    const auto at = step(Loading{}, event);
    EXPECT_EQ(residence_of(at.next), TensorResidency::Residence::loading);
    EXPECT_EQ(at.refusal->code(), ErrorCode::in_use);
    EXPECT_EQ(at.refusal->rule(), "tensor_is_not_being_loaded");
    EXPECT_FALSE(at.effect);
  }
}

TEST(ResidencyMachine, has_a_residence_for_every_state) {
  EXPECT_EQ(residence_of(Unbound{}), TensorResidency::Residence::unbound);
  EXPECT_EQ(residence_of(Mapped{}), TensorResidency::Residence::mapped);
  EXPECT_EQ(residence_of(Loading{}), TensorResidency::Residence::loading);
  EXPECT_EQ(residence_of(Resident{}), TensorResidency::Residence::resident);
  EXPECT_EQ(residence_of(Evicted{}), TensorResidency::Residence::evicted);
  EXPECT_EQ(residence_of(Failed{}), TensorResidency::Residence::failed);
}

TEST(ResidencyMachine, diagram_matches_the_docs) {
  testing::StateDiagram diagram("Unbound");
  for (const auto& state : states()) {
    for (const auto& event : events()) {
      const Step next = step(state, event);
      if (is_unknown_pair(next)) continue;
      diagram.add(name_of(state), name_of(next.next), name_of(event));
    }
  }
  diagram.expect_in_docs();
}

}  // namespace
}  // namespace ht::tensor_state::residency_machine_test
