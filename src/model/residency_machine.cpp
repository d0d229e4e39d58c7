#include "model/residency_machine.hpp"

#include <array>

#include "base/format_text.hpp"

namespace ht::inline v1 {

std::string_view to_string(Residence residence) noexcept {
  constexpr std::array<std::string_view, 6> names{"unbound",  "mapped",  "loading",
                                                  "resident", "evicted", "failed"};
  return names[static_cast<std::size_t>(residence)];
}

}  // namespace ht::inline v1

namespace ht::inline v1::tensor_state {
namespace {

// A failed request changes nothing.
Step stays(const State& state, const RequestFailed& event) { return {state, {}, event.error}; }

Step is_busy(const Loading& state) {
  return {state,
          {},
          std::make_shared<const Error>(Error(ErrorCode::in_use, "tensor_is_not_being_loaded",
                                              "tensor is being loaded by another thread")
                                            .with_hint("wait for that load, or stop it"))};
}

}  // namespace

Step on(const Unbound& state, const Map& /*event*/) { return {state, Ask::map}; }
Step on(const Unbound& /*state*/, const Load& /*event*/) { return {Loading{}, Ask::load}; }
Step on(const Unbound& state, const Evict& /*event*/) { return {state, Ask::drop_pages}; }
Step on(const Unbound& /*state*/, const MapDone& /*event*/) { return {Mapped{}}; }
Step on(const Unbound& state, const AdviseDone& /*event*/) { return {state}; }
Step on(const Unbound& state, const RequestFailed& event) { return stays(state, event); }

Step on(const Mapped& state, const Map& /*event*/) { return {state}; }
Step on(const Mapped& /*state*/, const Load& /*event*/) { return {Loading{}, Ask::load}; }
// The mapping stays; only pages go.
Step on(const Mapped& state, const Evict& /*event*/) { return {state, Ask::drop_pages}; }
Step on(const Mapped& state, const AdviseDone& /*event*/) { return {state}; }
Step on(const Mapped& state, const RequestFailed& event) { return stays(state, event); }

Step on(const Loading& state, const Map& /*event*/) { return {state}; }
Step on(const Loading& state, const Load& /*event*/) { return is_busy(state); }
Step on(const Loading& state, const Evict& /*event*/) { return is_busy(state); }
Step on(const Loading& /*state*/, const LoadDone& event) { return {Resident{event.memory, event.strategy}}; }
Step on(const Loading& /*state*/, const RequestFailed& event) {
  return {Failed{event.error}, {}, event.error};
}

Step on(const Resident& state, const Map& /*event*/) { return {state}; }
Step on(const Resident& state, const Load& /*event*/) { return {state}; }
Step on(const Resident& state, const Evict& /*event*/) { return {state, Ask::release}; }
Step on(const Resident& /*state*/, const ReleaseDone& /*event*/) { return {Evicted{}}; }
// Another owner holds the memory.
Step on(const Resident& state, const RequestFailed& event) { return stays(state, event); }

Step on(const Evicted& state, const Map& /*event*/) { return {state, Ask::map}; }
Step on(const Evicted& /*state*/, const Load& /*event*/) { return {Loading{}, Ask::load}; }
Step on(const Evicted& state, const Evict& /*event*/) { return {state, Ask::drop_pages}; }
Step on(const Evicted& /*state*/, const MapDone& /*event*/) { return {Mapped{}}; }
Step on(const Evicted& state, const AdviseDone& /*event*/) { return {state}; }
Step on(const Evicted& state, const RequestFailed& event) { return stays(state, event); }

// A failed load can be repeated.
Step on(const Failed& state, const Map& /*event*/) { return {state, Ask::map}; }
Step on(const Failed& /*state*/, const Load& /*event*/) { return {Loading{}, Ask::load}; }
Step on(const Failed& state, const Evict& /*event*/) { return {state, Ask::drop_pages}; }
Step on(const Failed& /*state*/, const MapDone& /*event*/) { return {Mapped{}}; }
Step on(const Failed& /*state*/, const AdviseDone& /*event*/) { return {Evicted{}}; }
Step on(const Failed& state, const RequestFailed& event) { return stays(state, event); }

Step step(const State& state, const Event& event) {
  return std::visit(
      [&](const auto& s, const auto& e) -> Step {
        if constexpr (requires { on(s, e); }) {
          return on(s, e);
        } else {
          const auto error = std::make_shared<const Error>(
              ErrorCode::bad_state, "event_belongs_to_the_state",
              format_text("tensor in state {} got the unexpected event {}", name_of(state), name_of(event)));
          return {Failed{error}, {}, error};
        }
      },
      state, event);
}

Residence residence_of(const State& state) noexcept { return static_cast<Residence>(state.index()); }

std::string_view name_of(const State& state) noexcept {
  constexpr std::array<std::string_view, 6> names{"Unbound",  "Mapped",  "Loading",
                                                  "Resident", "Evicted", "Failed"};
  static_assert(names.size() == std::variant_size_v<State>);
  return names[state.index()];
}

std::string_view name_of(const Event& event) noexcept {
  constexpr std::array<std::string_view, 8> names{"Map",      "Load",       "Evict",       "MapDone",
                                                  "LoadDone", "AdviseDone", "ReleaseDone", "RequestFailed"};
  static_assert(names.size() == std::variant_size_v<Event>);
  return names[event.index()];
}

}  // namespace ht::inline v1::tensor_state
