#include "io/staged_machine.hpp"

#include <array>

#include "base/format_text.hpp"

namespace ht::inline v1::io::staged {
namespace {

// Reading comes first, so that the disk is never idle while there is room.
Step go_on(Ring ring) {
  if (ring.has_room()) return {Running{ring}, Begin{ring.slot_of(ring.begun)}};
  if (ring.is_filled(ring.slot_of(ring.handed))) return {Running{ring}, Hand{ring.slot_of(ring.handed)}};
  if (ring.under_way > 0) return {Running{ring}, Await{}};
  return {Done{}, {}};
}

// The same with what is there already: the queue takes no more.
Step go_on_without_beginning(const Ring& ring) {
  if (ring.is_filled(ring.slot_of(ring.handed))) return {Running{ring}, Hand{ring.slot_of(ring.handed)}};
  if (ring.under_way > 0) return {Running{ring}, Await{}};
  return {
      Failed{Error(ErrorCode::internal, "queue_takes_a_read", "read queue is full with no read in flight")},
      {}};
}

Step drain(const Ring& ring, const Error& error) {
  if (ring.under_way > 0) return {Draining{ring, error}, Await{}};
  return {Failed{error}, {}};
}

Ring with_one_less(Ring ring) {
  --ring.under_way;
  return ring;
}

}  // namespace

Step on(const Idle& state, const Start& /*event*/) { return go_on(Ring{.slots = state.slots}); }

Step on(const Running& state, const Begun& /*event*/) {
  Ring ring = state.ring;
  ++ring.begun;
  ++ring.under_way;
  return go_on(ring);
}

Step on(const Running& state, const BegunRest& /*event*/) {
  Ring ring = state.ring;
  ++ring.under_way;
  return go_on(ring);
}

Step on(const Running& state, const NothingLeft& /*event*/) {
  Ring ring = state.ring;
  ring.all_begun = true;
  return go_on(ring);
}

Step on(const Running& state, const NoRoom& /*event*/) { return go_on_without_beginning(state.ring); }

Step on(const Running& state, const Arrived& event) {
  Ring ring = with_one_less(state.ring);
  ring.filled |= std::uint64_t{1} << event.slot;
  return go_on(ring);
}

Step on(const Running& state, const CameShort& event) {
  return {Running{with_one_less(state.ring)}, BeginRest{event.slot}};
}

Step on(const Running& state, const ReadFailed& event) {
  return drain(with_one_less(state.ring), event.error);
}

Step on(const Running& state, const Handed& /*event*/) {
  Ring ring = state.ring;
  ring.filled &= ~(std::uint64_t{1} << ring.slot_of(ring.handed));
  ++ring.handed;
  return go_on(ring);
}

Step on(const Running& state, const Broke& event) { return drain(state.ring, event.error); }

Step on(const Draining& state, const Arrived& /*event*/) {
  return drain(with_one_less(state.ring), state.error);
}
Step on(const Draining& state, const CameShort& /*event*/) {
  return drain(with_one_less(state.ring), state.error);
}
Step on(const Draining& state, const ReadFailed& /*event*/) {
  return drain(with_one_less(state.ring), state.error);
}
// Waiting itself fails: the queue waits for the rest when it goes.
Step on(const Draining& state, const Broke& /*event*/) { return {Failed{state.error}, {}}; }

Step step(const State& state, const Event& event) {
  return std::visit(
      [&](const auto& s, const auto& e) -> Step {
        if constexpr (requires { on(s, e); }) {
          return on(s, e);
        } else {
          return {Failed{Error(ErrorCode::bad_state, "event_belongs_to_the_state",
                               format_text("staged load in state {} got the unexpected event {}",
                                           name_of(state), name_of(event)))},
                  {}};
        }
      },
      state, event);
}

std::string_view name_of(const State& state) noexcept {
  constexpr std::array<std::string_view, 5> names{"Idle", "Running", "Draining", "Done", "Failed"};
  static_assert(names.size() == std::variant_size_v<State>);
  return names[state.index()];
}

std::string_view name_of(const Event& event) noexcept {
  constexpr std::array<std::string_view, 10> names{"Start",  "Begun",   "BegunRest", "NothingLeft",
                                                   "NoRoom", "Arrived", "CameShort", "ReadFailed",
                                                   "Handed", "Broke"};
  static_assert(names.size() == std::variant_size_v<Event>);
  return names[event.index()];
}

std::string_view name_of(const Effect& effect) noexcept {
  constexpr std::array<std::string_view, 4> names{"Begin", "BeginRest", "Hand", "Await"};
  static_assert(names.size() == std::variant_size_v<Effect>);
  return names[effect.index()];
}

}  // namespace ht::inline v1::io::staged
