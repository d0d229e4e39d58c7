#include "io/strategy/mapped_machine.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/state_diagram.hpp"

namespace ht::io::mapped::mapped_machine_test {
namespace {

const Error some_error(ErrorCode::map_failed, "test", "it failed");

std::vector<State> states() { return {Unmapped{}, Mapping{}, Whole{}, Windowed{}, Failed{some_error}}; }
std::vector<Event> events() {
  return {Map{}, Advise{}, Drop{}, WholeMapped{}, NoRoom{}, MapFailed{some_error}};
}

bool is_unknown_pair(const Step& step) {
  const auto* const refused = std::get_if<Refuse>(&step.effect);
  return refused != nullptr && refused->error.rule() == "event_is_valid_in_the_state";
}

TEST(MappedMachine, event_is_valid_in_the_state) {
  std::size_t known = 0;
  for (const auto& state : states()) {
    for (const auto& event : events()) {
      const Step next = step(state, event);
      if (!is_unknown_pair(next)) {
        ++known;
        continue;
      }
      ASSERT_TRUE(std::holds_alternative<Failed>(next.next));
      const auto& error = std::get<Failed>(next.next).error;
      EXPECT_EQ(error.code(), ErrorCode::bad_state);
      EXPECT_NE(error.message().find(name_of(state)), std::string_view::npos);
      EXPECT_NE(error.message().find(name_of(event)), std::string_view::npos);
    }
  }
  EXPECT_EQ(known, 12U);
}

TEST(MappedMachine, maps_the_whole_source_once) {
  auto at = step(Unmapped{}, Map{});
  EXPECT_TRUE(std::holds_alternative<MapWhole>(at.effect));
  at = step(at.next, WholeMapped{});
  EXPECT_TRUE(std::holds_alternative<Repeat>(at.effect));
  for (int i = 0; i < 2; ++i) {
    at = step(at.next, Map{});
    EXPECT_TRUE(std::holds_alternative<ReturnView>(at.effect));
  }
}

TEST(MappedMachine, maps_windows_if_the_address_space_is_too_small) {
  auto at = step(step(Unmapped{}, Advise{}).next, NoRoom{});
  EXPECT_TRUE(std::holds_alternative<Repeat>(at.effect));
  at = step(at.next, Advise{});
  EXPECT_TRUE(std::holds_alternative<AdviseWindow>(at.effect));
  at = step(at.next, Map{});
  EXPECT_TRUE(std::holds_alternative<ReturnWindow>(at.effect));
  at = step(at.next, Drop{});
  EXPECT_TRUE(std::holds_alternative<DropPages>(at.effect));
}

TEST(MappedMachine, retries_after_a_failure) {
  const auto at = step(Mapping{}, MapFailed{some_error});
  EXPECT_EQ(std::get<Refuse>(at.effect).error.code(), ErrorCode::map_failed);
  EXPECT_TRUE(std::holds_alternative<MapWhole>(step(at.next, Map{}).effect));
}

// The diagram of docs/io.md.
TEST(MappedMachine, is_documented) {
  testing::StateDiagram diagram("Unmapped");
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
}  // namespace ht::io::mapped::mapped_machine_test
