#include "model/residency_machine.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace ht::residency {
namespace {

constexpr io::FileRange range{2, 4096, 100};
constexpr io::Handle mapping{1, 2, 3};
constexpr io::Handle block{4, 5, 6};

std::shared_ptr<const Error> some_error() {
  return std::make_shared<const Error>(ErrorCode::read_failed, "test", "it failed");
}

// One of each, with a mapping and without.
std::vector<State> states() {
  const Place bare{range, {}};
  const Place mapped{range, mapping};
  return {Unbound{},
          Bound{bare},
          Mapped{mapped},
          Loading{mapped},
          Resident{mapped, block},
          Evicted{mapped},
          Evicted{bare},
          Failed{some_error(), mapped},
          Failed{some_error(), bare}};
}
std::vector<Event> events() {
  return {Bind{range},
          Map{},
          Load{8},
          Evict{},
          MapDone{mapping},
          LoadDone{block},
          AdviseDone{},
          ReleaseDone{},
          RequestFailed{some_error()}};
}

bool is_unknown_pair(const Step& step) {
  return step.refusal && step.refusal->rule() == "event_belongs_to_the_state";
}

TEST(ResidencyMachine, event_belongs_to_the_state) {
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
      // It still knows where its bytes are.
      const auto& place = std::get<Failed>(next.next).place;
      EXPECT_EQ(place.range, std::holds_alternative<Unbound>(state) ? io::FileRange{} : range);
    }
  }
  EXPECT_EQ(known.size(), 31U);
}

TEST(ResidencyMachine, goes_the_way_of_a_tensor) {
  auto at = step(Unbound{}, Bind{range});
  at = step(at.next, Map{});
  EXPECT_EQ(std::get<io::MapRequest>(at.effect.value()).range, range);
  at = step(at.next, MapDone{mapping});
  EXPECT_EQ(residence_of(at.next), Residence::mapped);
  at = step(at.next, Load{8});
  EXPECT_EQ(std::get<io::LoadRequest>(at.effect.value()).range, range);
  EXPECT_EQ(std::get<io::LoadRequest>(at.effect.value()).alignment, 8U);
  at = step(at.next, LoadDone{block});
  EXPECT_EQ(residence_of(at.next), Residence::resident);
  at = step(at.next, Evict{});
  EXPECT_EQ(std::get<io::ReleaseRequest>(at.effect.value()).handle, block);
  EXPECT_EQ(residence_of(at.next), Residence::resident);
  at = step(at.next, ReleaseDone{});
  EXPECT_EQ(residence_of(at.next), Residence::evicted);
  // The mapping is still there.
  at = step(at.next, Map{});
  EXPECT_FALSE(at.effect);
  EXPECT_EQ(std::get<Mapped>(at.next).place.mapping, mapping);
}

TEST(ResidencyMachine, mapped_only_loses_its_pages) {
  auto at = step(Mapped{{range, mapping}}, Evict{});
  const auto request = std::get<io::AdviseRequest>(at.effect.value());
  EXPECT_EQ(request.handle, mapping);
  EXPECT_EQ(request.advice, io::Advice::drop);
  EXPECT_EQ(request.part, range);
  at = step(at.next, AdviseDone{});
  EXPECT_EQ(residence_of(at.next), Residence::mapped);
  at = step(at.next, RequestFailed{some_error()});
  EXPECT_EQ(residence_of(at.next), Residence::mapped);
  EXPECT_EQ(at.refusal->rule(), "test");
}

TEST(ResidencyMachine, what_cannot_be_released_stays_resident) {
  const auto at = step(Resident{{range, mapping}, block}, RequestFailed{some_error()});
  EXPECT_EQ(std::get<Resident>(at.next).block, block);
  EXPECT_EQ(at.refusal->rule(), "test");
}

TEST(ResidencyMachine, what_failed_can_be_tried_again) {
  auto at = step(Loading{{range, mapping}}, RequestFailed{some_error()});
  EXPECT_EQ(std::get<Failed>(at.next).error->rule(), "test");
  const State failed = at.next;
  EXPECT_EQ(residence_of(step(failed, Load{1}).next), Residence::loading);
  EXPECT_EQ(residence_of(step(failed, Map{}).next), Residence::mapped);
  EXPECT_EQ(residence_of(step(failed, Evict{}).next), Residence::evicted);
}

TEST(ResidencyMachine, tensor_is_not_being_loaded) {
  for (const Event& event : {Event(Evict{}), Event(Load{1})}) {
    const auto at = step(Loading{{range, mapping}}, event);
    EXPECT_EQ(residence_of(at.next), Residence::loading);
    EXPECT_EQ(at.refusal->code(), ErrorCode::in_use);
    EXPECT_EQ(at.refusal->rule(), "tensor_is_not_being_loaded");
    EXPECT_FALSE(at.effect);
  }
}

TEST(ResidencyMachine, has_a_word_for_every_state) {
  std::set<std::string_view> words;
  for (const auto& state : states()) words.insert(to_string(residence_of(state)));
  EXPECT_EQ(words, (std::set<std::string_view>{"unbound", "bound", "mapped", "loading", "resident", "evicted",
                                               "failed"}));
}

std::string diagram() {
  std::set<std::string> arrows;
  for (const auto& state : states()) {
    for (const auto& event : events()) {
      const Step next = step(state, event);
      if (is_unknown_pair(next)) continue;
      arrows.insert("    " + std::string(name_of(state)) + " --> " + std::string(name_of(next.next)) + " : " +
                    std::string(name_of(event)) + "\n");
    }
  }
  std::string text = "stateDiagram-v2\n    [*] --> Unbound\n";
  for (const auto& arrow : arrows) text += arrow;
  return text;
}

TEST(ResidencyMachine, diagram_is_the_one_in_the_docs) {
  std::ifstream file("docs/io.md");
  std::stringstream docs;
  docs << file.rdbuf();
  EXPECT_NE(docs.str().find(diagram()), std::string::npos) << "docs/io.md should have:\n" << diagram();
}

}  // namespace
}  // namespace ht::residency
