#include "load/window/window_machine.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "testing/state_diagram.hpp"

namespace ht::window::window_machine_test {
namespace {

Error some_error() { return Error(ErrorCode::read_failed, "test", "it failed"); }

// Copies the state, so that a test can continue from it more than once.
Step after(State state, Event event) { return step(std::move(state), std::move(event)); }

Ledger ledger_of(std::vector<std::uint64_t> bytes, std::uint64_t budget) {
  return make_ledger(bytes, budget);
}

const Ledger* ledger_in(const State& state) {
  return std::visit(
      [](const auto& s) -> const Ledger* {
        if constexpr (requires { s.ledger; }) {
          return &s.ledger;
        } else {
          return nullptr;
        }
      },
      state);
}

bool is_awaited(const State& state) { return std::holds_alternative<Awaited>(state); }

// Returns the effect that is in flight in a state.
std::optional<Effect> effect_of(const State& state) {
  return std::visit(
      [](const auto& s) -> std::optional<Effect> {
        if constexpr (requires { s.effect; }) {
          return s.effect;
        } else {
          return std::nullopt;
        }
      },
      state);
}

Effect fetch(std::size_t layer) { return {Action::fetch, layer}; }
Effect drop(std::size_t layer) { return {Action::drop, layer}; }

bool is_unknown_pair(const Step& step) {
  const auto* const failed = std::get_if<Failed>(&step.next);
  return failed != nullptr && failed->error.rule() == "event_is_valid_in_the_state";
}

std::vector<Event> events(std::size_t layers) {
  std::vector<Event> all{Done{}, EffectFailed{some_error()}, Stop{Error(ErrorCode::cancelled)}};
  for (std::size_t layer = 0; layer < layers; ++layer) all.emplace_back(Enter{layer});
  return all;
}

// Returns a text that differs for any two states.
std::string key_of(const State& state) {
  std::ostringstream key;
  key << name_of(state);
  if (const auto* const ledger = ledger_in(state)) {
    for (const auto& layer : ledger->layers)
      key << static_cast<int>(layer.presence) << (layer.fetch_error ? "!" : "");
    key << ' ' << (ledger->entered ? static_cast<int>(*ledger->entered) : -1);
    key << ' ' << ledger->drop_error.has_value();
  }
  if (const auto effect = effect_of(state))
    key << (effect->action == Action::fetch ? " fetch " : " drop ") << effect->layer;
  if (const auto* const awaited = std::get_if<Awaited>(&state)) key << ' ' << awaited->requested;
  return key.str();
}

// Returns every reachable state of a window with these layers.
std::map<std::string, State> reachable(const std::vector<std::uint64_t>& bytes, std::uint64_t budget) {
  std::map<std::string, State> found;
  std::vector<State> to_do{Idle{make_ledger(bytes, budget)}};
  while (!to_do.empty()) {
    const State state = to_do.back();
    to_do.pop_back();
    if (!found.emplace(key_of(state), state).second) continue;
    for (const auto& event : events(bytes.size())) {
      auto next = after(state, event);
      if (!is_unknown_pair(next)) to_do.push_back(std::move(next.next));
    }
  }
  return found;
}

// Sizes of the layers. The tests use every budget that holds the largest layer.
const std::vector<std::uint64_t> small_layers{2, 1, 1, 3};

void for_each_reachable(const std::function<void(const State&, std::uint64_t budget)>& check) {
  static const auto all = [] {
    std::map<std::uint64_t, std::map<std::string, State>> by_budget;
    for (std::uint64_t budget = 3; budget <= 8; ++budget) by_budget[budget] = reachable(small_layers, budget);
    return by_budget;
  }();
  for (const auto& [budget, states] : all) {
    for (const auto& [key, state] : states) {
      SCOPED_TRACE(key + ", budget " + std::to_string(budget));
      check(state, budget);
    }
  }
}

TEST(WindowMachine, event_is_valid_in_the_state) {
  std::set<std::pair<std::string_view, std::string_view>> known;
  for_each_reachable([&](const State& state, std::uint64_t) {
    for (const auto& event : events(small_layers.size())) {
      const Step next = after(state, event);
      if (!is_unknown_pair(next)) {
        known.emplace(name_of(state), name_of(event));
        continue;
      }
      const auto& error = std::get<Failed>(next.next).error;
      EXPECT_EQ(error.code(), ErrorCode::bad_state);
      EXPECT_NE(error.message().find(name_of(state)), std::string_view::npos);
      EXPECT_NE(error.message().find(name_of(event)), std::string_view::npos);
      EXPECT_FALSE(next.effect);
      const bool waits = is_awaited(state) || std::holds_alternative<Enter>(event);
      ASSERT_EQ(next.answer.has_value(), waits);
      if (waits) {
        EXPECT_EQ(next.answer->error->code(), ErrorCode::bad_state);
      }
      // The machine stays in Failed and answers each Enter with the error.
      const Step later = after(next.next, Enter{0});
      EXPECT_TRUE(std::holds_alternative<Failed>(later.next));
      EXPECT_EQ(later.answer.value().error.value().rule(), "event_is_valid_in_the_state");
      EXPECT_TRUE(std::holds_alternative<Failed>(after(next.next, Stop{some_error()}).next));
    }
  });
  EXPECT_EQ(known.size(), 15U);  // Failed, which is not reached here, accepts two more
}

TEST(WindowMachine, budget_is_never_exceeded) {
  for_each_reachable([](const State& state, std::uint64_t budget) {
    const auto* const ledger = ledger_in(state);
    if (ledger == nullptr) return;
    std::uint64_t held = 0;
    std::uint64_t taken = 0;
    std::size_t missing = 0;
    for (const auto& layer : ledger->layers) {
      if (layer.presence != Presence::present) ++missing;
      if (layer.presence == Presence::absent) continue;
      held += layer.bytes;
      if (!layer.is_kept) taken += layer.bytes;
    }
    EXPECT_LE(held, budget);
    EXPECT_LE(taken, ledger->room);
    EXPECT_EQ(taken, ledger->taken);
    EXPECT_EQ(missing, ledger->missing);
  });
}

TEST(WindowMachine, entered_layer_is_present_and_not_dropped) {
  for_each_reachable([](const State& state, std::uint64_t) {
    const auto* const ledger = ledger_in(state);
    if (ledger == nullptr || !ledger->entered) return;
    EXPECT_FALSE(is_awaited(state));
    EXPECT_EQ(ledger->layers[*ledger->entered].presence, Presence::present);
    EXPECT_NE(effect_of(state), drop(*ledger->entered));
  });
}

TEST(WindowMachine, every_enter_is_answered) {
  for_each_reachable([](const State& state, std::uint64_t) {
    if (!is_awaited(state)) return;
    // The effect in flight ends, other layers are dropped if necessary, and the layer is fetched.
    State at = state;
    std::optional<Answer> answer;
    for (int steps = 0; !answer && steps < 10; ++steps) {
      Step next = after(std::move(at), Done{});
      answer = std::move(next.answer);
      at = std::move(next.next);
    }
    ASSERT_TRUE(answer);
    EXPECT_FALSE(answer->error);
    EXPECT_EQ(ledger_in(at)->entered, std::get<Awaited>(state).requested);
  });
}

TEST(WindowMachine, at_most_one_effect_is_in_flight_and_the_state_names_it) {
  for_each_reachable([](const State& state, std::uint64_t) {
    for (const auto& event : events(small_layers.size())) {
      const Step next = after(state, event);
      if (is_unknown_pair(next)) continue;
      const bool continues = std::holds_alternative<Enter>(event) && effect_of(state);
      if (continues) {
        EXPECT_EQ(effect_of(next.next), effect_of(state));
      }
      EXPECT_EQ(next.effect, continues ? std::nullopt : effect_of(next.next));
    }
  });
}

TEST(WindowMachine, all_layers_are_kept_if_all_fit) {
  const auto ledger = ledger_of({4, 0, 5}, 9);
  for (const auto& layer : ledger.layers) EXPECT_TRUE(layer.is_kept);
  EXPECT_EQ(ledger.room, 0U);
}

TEST(WindowMachine, kept_layers_are_spread_and_leave_room_for_two) {
  const auto ledger = make_ledger(std::vector<std::uint64_t>(12, 10), 60);
  std::string kept;
  for (const auto& layer : ledger.layers) kept += layer.is_kept ? 'k' : '-';
  EXPECT_EQ(kept, "--k--k--k--k");
  EXPECT_EQ(ledger.room, 20U);
}

TEST(WindowMachine, small_layers_are_kept_if_large_ones_do_not_fit) {
  const auto ledger = ledger_of({9, 1, 9, 2, 9}, 21);
  EXPECT_TRUE(ledger.layers[1].is_kept && ledger.layers[3].is_kept);
  EXPECT_EQ(ledger.room, 18U);
}

TEST(WindowMachine, no_layer_is_kept_with_room_for_one) {
  const auto ledger = ledger_of({3, 3, 2}, 5);
  for (const auto& layer : ledger.layers) EXPECT_FALSE(layer.is_kept);
  EXPECT_EQ(ledger.room, 5U);
}

TEST(WindowMachine, overflowing_sums_of_sizes_are_handled) {
  constexpr std::uint64_t huge = UINT64_MAX - 1;
  const std::vector<std::uint64_t> bytes{huge, huge, 1};
  EXPECT_EQ(two_largest(bytes), UINT64_MAX);
  const auto ledger = make_ledger(bytes, huge);
  EXPECT_FALSE(ledger.layers[0].is_kept || ledger.layers[1].is_kept);
  EXPECT_EQ(ledger.room, huge);
}

TEST(WindowMachine, fetches_ahead_and_drops_behind) {
  auto at = after(Idle{ledger_of({1, 1, 1, 1}, 2)}, Enter{1});
  EXPECT_TRUE(std::holds_alternative<Awaited>(at.next));
  at = after(at.next, Done{});
  EXPECT_FALSE(at.answer.value().error);
  EXPECT_EQ(at.effect, fetch(2));
  at = after(at.next, Done{});
  EXPECT_TRUE(std::holds_alternative<Idle>(at.next));
  at = after(at.next, Enter{2});
  EXPECT_TRUE(at.answer);
  EXPECT_EQ(at.effect, drop(1));
  at = after(at.next, Done{});
  EXPECT_EQ(at.effect, fetch(3));
  // After the last layer comes the first.
  at = after(after(after(at.next, Enter{3}).next, Done{}).next, Done{});
  EXPECT_EQ(at.effect, fetch(0));
}

TEST(WindowMachine, failed_prefetch_is_returned_when_the_layer_is_entered) {
  auto at = after(after(Idle{ledger_of({1, 1, 1}, 9)}, Enter{0}).next, Done{});
  at = after(at.next, EffectFailed{some_error()});
  // No layer after the failed one is prefetched; other layers can be entered.
  EXPECT_TRUE(std::holds_alternative<Idle>(at.next));
  at = after(at.next, Enter{2});
  EXPECT_TRUE(std::holds_alternative<Awaited>(at.next));
  at = after(at.next, Done{});
  EXPECT_FALSE(at.answer.value().error);
  at = after(at.next, Enter{1});
  EXPECT_EQ(at.answer.value().error.value().rule(), "test");
  EXPECT_FALSE(at.effect);
  at = after(at.next, Enter{1});
  EXPECT_EQ(at.effect, fetch(1));
}

TEST(WindowMachine, failed_prefetches_of_two_layers_are_returned_when_each_is_entered) {
  const auto failed = [](std::string_view rule) {
    return EffectFailed{Error(ErrorCode::read_failed, rule, "it failed")};
  };
  for (const bool is_awaited : {false, true}) {
    auto at = after(after(Idle{ledger_of({1, 1, 1, 1, 1}, 9)}, Enter{1}).next, Done{});
    ASSERT_EQ(at.effect, fetch(2));
    at = after(at.next, failed("of_layer_2"));
    // Prefetching goes on from the entered layer up to the failed one.
    at = after(after(at.next, Enter{4}).next, Done{});
    ASSERT_EQ(at.effect, fetch(0));
    if (is_awaited) at = after(at.next, Enter{3});
    at = after(at.next, failed("of_layer_0"));
    if (is_awaited) at = after(at.next, Done{});
    at = after(at.next, Enter{2});
    EXPECT_EQ(at.answer.value().error.value().rule(), "of_layer_2");
    at = after(at.next, Enter{0});
    ASSERT_TRUE(at.answer && at.answer->error) << "is_awaited: " << is_awaited;
    EXPECT_EQ(at.answer->error->rule(), "of_layer_0");
  }
}

TEST(WindowMachine, failed_awaited_fetch_is_returned_at_once) {
  auto at = after(after(Idle{ledger_of({1, 1, 1}, 9)}, Enter{0}).next, EffectFailed{some_error()});
  EXPECT_EQ(at.answer.value().error.value().rule(), "test");
  EXPECT_FALSE(ledger_in(at.next)->entered);
  at = after(after(at.next, Enter{0}).next, Done{});
  EXPECT_FALSE(at.answer.value().error);
}

TEST(WindowMachine, failed_drop_is_returned_by_the_next_enter) {
  auto at = after(after(after(Idle{ledger_of({1, 1, 1, 1}, 2)}, Enter{0}).next, Done{}).next, Done{});
  at = after(at.next, Enter{1});
  EXPECT_EQ(at.effect, drop(0));
  at = after(at.next, EffectFailed{some_error()});
  EXPECT_TRUE(std::holds_alternative<Idle>(at.next));
  at = after(at.next, Enter{1});
  EXPECT_EQ(at.answer.value().error.value().rule(), "test");
  EXPECT_FALSE(at.effect);
  // The next Enter retries the drop.
  at = after(at.next, Enter{1});
  EXPECT_FALSE(at.answer.value().error);
  EXPECT_EQ(at.effect, drop(0));
}

TEST(WindowMachine, stop_answers_the_pending_enter_and_waits_for_the_effect) {
  auto at = after(after(Idle{ledger_of({1, 1}, 2)}, Enter{0}).next, Stop{some_error()});
  EXPECT_EQ(at.answer.value().error.value().rule(), "test");
  EXPECT_TRUE(std::holds_alternative<Stopping>(at.next));
  at = after(at.next, Done{});
  EXPECT_TRUE(std::holds_alternative<Stopped>(at.next));
  EXPECT_EQ(after(at.next, Enter{0}).answer.value().error.value().rule(), "test");
}

// Every transition from a reachable state.
TEST(WindowMachine, diagram_matches_the_docs) {
  testing::StateDiagram diagram("Idle", {"Stopped", "Failed"});
  const auto add = [&](const State& state) {
    for (const auto& event : events(small_layers.size())) {
      const Step next = after(state, event);
      if (is_unknown_pair(next)) continue;
      diagram.add(name_of(state), name_of(next.next), name_of(event));
    }
  };
  for_each_reachable([&](const State& state, std::uint64_t) { add(state); });
  add(Failed{some_error()});
  diagram.expect_in_docs();
}

}  // namespace
}  // namespace ht::window::window_machine_test
