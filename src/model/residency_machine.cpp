#include "model/residency_machine.hpp"

#include <array>

#include "base/format_text.hpp"

namespace ht::inline v1::residency {
namespace {

// A mapping that is there is used again.
Step map_from(const State& state, const Place& place) {
  if (place.is_mapped()) return {Mapped{place}};
  return {state, io::MapRequest{place.range}};
}

Step load_from(const Place& place, const Load& event) {
  return {Loading{place}, io::LoadRequest{.range = place.range, .alignment = event.alignment}};
}

Step mapped_by(Place place, const MapDone& event) {
  place.mapping = event.handle;
  return {Mapped{place}};
}

// Without memory, or the file's words, it stays where it was.
Step stays(const State& state, const RequestFailed& event) { return {state, {}, event.error}; }

Step is_busy(const Loading& state) {
  return {state,
          {},
          std::make_shared<const Error>(Error(ErrorCode::in_use, "tensor_is_not_being_loaded",
                                              "tensor is being loaded by another thread")
                                            .with_hint("wait for that load, or stop it"))};
}

// Whatever goes wrong, a tensor knows where its bytes are.
Place place_of(const State& state) {
  return std::visit(
      [](const auto& each) -> Place {
        if constexpr (requires { each.place; }) {
          return each.place;
        } else {
          return {};
        }
      },
      state);
}

}  // namespace

Step on(const Unbound& /*state*/, const Bind& event) { return {Bound{{.range = event.range}}}; }

Step on(const Bound& state, const Map& /*event*/) { return map_from(state, state.place); }
Step on(const Bound& state, const MapDone& event) { return mapped_by(state.place, event); }
Step on(const Bound& state, const RequestFailed& event) {
  return {Failed{event.error, state.place}, {}, event.error};
}
Step on(const Bound& state, const Load& event) { return load_from(state.place, event); }
Step on(const Bound& state, const Evict& /*event*/) { return {state}; }

Step on(const Mapped& state, const Map& /*event*/) { return {state}; }
Step on(const Mapped& state, const Load& event) { return load_from(state.place, event); }
// It only loses its pages.
Step on(const Mapped& state, const Evict& /*event*/) {
  return {state, io::AdviseRequest{state.place.mapping, io::Advice::drop, state.place.range}};
}
Step on(const Mapped& state, const AdviseDone& /*event*/) { return {state}; }
Step on(const Mapped& state, const RequestFailed& event) { return stays(state, event); }

Step on(const Loading& state, const Map& /*event*/) { return {state}; }
Step on(const Loading& state, const Load& /*event*/) { return is_busy(state); }
Step on(const Loading& state, const Evict& /*event*/) { return is_busy(state); }
Step on(const Loading& state, const LoadDone& event) { return {Resident{state.place, event.handle}}; }
Step on(const Loading& state, const RequestFailed& event) {
  return {Failed{event.error, state.place}, {}, event.error};
}

Step on(const Resident& state, const Map& /*event*/) { return {state}; }
Step on(const Resident& state, const Load& /*event*/) { return {state}; }
Step on(const Resident& state, const Evict& /*event*/) { return {state, io::ReleaseRequest{state.block}}; }
Step on(const Resident& state, const ReleaseDone& /*event*/) { return {Evicted{state.place}}; }
// Somebody holds it.
Step on(const Resident& state, const RequestFailed& event) { return stays(state, event); }

Step on(const Evicted& state, const Map& /*event*/) { return map_from(state, state.place); }
Step on(const Evicted& state, const MapDone& event) { return mapped_by(state.place, event); }
Step on(const Evicted& state, const RequestFailed& event) { return stays(state, event); }
Step on(const Evicted& state, const Load& event) { return load_from(state.place, event); }
Step on(const Evicted& state, const Evict& /*event*/) { return {state}; }

// What failed can be tried again.
Step on(const Failed& state, const Map& /*event*/) { return map_from(state, state.place); }
Step on(const Failed& state, const MapDone& event) { return mapped_by(state.place, event); }
Step on(const Failed& state, const RequestFailed& event) {
  return {Failed{event.error, state.place}, {}, event.error};
}
Step on(const Failed& state, const Load& event) { return load_from(state.place, event); }
Step on(const Failed& state, const Evict& /*event*/) { return {Evicted{state.place}}; }

Step step(const State& state, const Event& event) {
  return std::visit(
      [&](const auto& s, const auto& e) -> Step {
        if constexpr (requires { on(s, e); }) {
          return on(s, e);
        } else {
          const auto error = std::make_shared<const Error>(
              ErrorCode::bad_state, "event_belongs_to_the_state",
              format_text("tensor in state {} got the unexpected event {}", name_of(state), name_of(event)));
          return {Failed{error, place_of(state)}, {}, error};
        }
      },
      state, event);
}

Residence residence_of(const State& state) noexcept { return static_cast<Residence>(state.index()); }

std::string_view name_of(const State& state) noexcept {
  constexpr std::array<std::string_view, 7> names{"Unbound",  "Bound",   "Mapped", "Loading",
                                                  "Resident", "Evicted", "Failed"};
  static_assert(names.size() == std::variant_size_v<State>);
  return names[state.index()];
}

std::string_view name_of(const Event& event) noexcept {
  constexpr std::array<std::string_view, 9> names{
      "Bind", "Map", "Load", "Evict", "MapDone", "LoadDone", "AdviseDone", "ReleaseDone", "RequestFailed"};
  static_assert(names.size() == std::variant_size_v<Event>);
  return names[event.index()];
}

}  // namespace ht::inline v1::residency
