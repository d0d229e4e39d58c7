// The location of a tensor's bytes as a state machine. Each tensor has one state. `on` maps a state and an
// event to the next state and, optionally, a request. It has no side effects: ResidencyShell sends the
// request to a strategy, which answers with one event.
#pragma once

#include <concepts>
#include <htensor/base/result.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/model/model.hpp>
#include <memory>
#include <optional>
#include <variant>

#include "base/format_text.hpp"
#include "base/state_machine.hpp"

namespace ht::inline v1::tensor_state {

// States.
struct Unbound {};  ///< its file is missing or not mapped yet
struct Mapped {};   ///< its file is mapped
struct Loading {};
struct Resident {  ///< in memory, independent of the file
  io::Memory memory;
  std::shared_ptr<io::Strategy> strategy;  ///< the strategy that loaded it
};
struct Evicted {};  ///< was resident
struct Failed {     ///< could not be loaded
  std::shared_ptr<const Error> error;
};
using State = std::variant<Unbound, Mapped, Loading, Resident, Evicted, Failed>;

// Events: requests of the tensor's users, and answers of the strategy.
struct Map {};
struct Load {};
struct Evict {};
struct LoadDone {
  io::Memory memory;
  std::shared_ptr<io::Strategy> strategy;
};
struct MapDone {};
using AdviseDone = io::Strategy::AdviseDone;
using ReleaseDone = io::Strategy::ReleaseDone;
using RequestFailed = io::Strategy::RequestFailed;
using Event = std::variant<Map, Load, Evict, MapDone, LoadDone, AdviseDone, ReleaseDone, RequestFailed>;

/// A request to the strategy, which answers with one event.
enum class Request : std::uint8_t { map, load, drop_pages, release };

struct Step {
  State next;
  std::optional<Request> effect{};
  /// The error returned to the user if the request cannot be carried out.
  std::shared_ptr<const Error> refusal{};
};

// The transition table.

template <class S>
concept NotInMemory = std::same_as<S, Unbound> || std::same_as<S, Evicted> || std::same_as<S, Failed>;
// States in which a load can begin.
template <class S>
concept Loadable = NotInMemory<S> || std::same_as<S, Mapped>;

// A failed request does not change the state.
template <class S>
  requires Loadable<S> || std::same_as<S, Resident>
Step on(const S& state, const RequestFailed& event) {
  return {state, {}, event.error};
}

template <NotInMemory S>
Step on(const S& state, const Map& /*event*/) {
  return {state, Request::map};
}
template <NotInMemory S>
Step on(const S& /*state*/, const MapDone& /*event*/) {
  return {Mapped{}};
}
// A failed load can be retried.
template <Loadable S>
Step on(const S& /*state*/, const Load& /*event*/) {
  return {Loading{}, Request::load};
}
// Drops pages and keeps the mapping.
template <Loadable S>
Step on(const S& state, const Evict& /*event*/) {
  return {state, Request::drop_pages};
}
template <Loadable S>
Step on(const S& state, const AdviseDone& /*event*/) {
  return {state};
}

inline Step on(const Mapped& state, const Map& /*event*/) { return {state}; }

inline Step refuse_while_loading(const Loading& state) {
  return {state,
          {},
          std::make_shared<const Error>(Error(ErrorCode::in_use, "tensor_is_not_being_loaded",
                                              "tensor is being loaded by another thread")
                                            .with_hint("wait for that load, or stop it"))};
}
inline Step on(const Loading& state, const Map& /*event*/) { return {state}; }
inline Step on(const Loading& state, const Load& /*event*/) { return refuse_while_loading(state); }
inline Step on(const Loading& state, const Evict& /*event*/) { return refuse_while_loading(state); }
inline Step on(const Loading& /*state*/, const LoadDone& event) {
  return {Resident{event.memory, event.strategy}};
}
inline Step on(const Loading& /*state*/, const RequestFailed& event) {
  return {Failed{event.error}, {}, event.error};
}

inline Step on(const Resident& state, const Map& /*event*/) { return {state}; }
inline Step on(const Resident& state, const Load& /*event*/) { return {state}; }
inline Step on(const Resident& state, const Evict& /*event*/) { return {state, Request::release}; }
inline Step on(const Resident& /*state*/, const ReleaseDone& /*event*/) { return {Evicted{}}; }

/// Returns the next step. If the table has no `on` for the state and the event, the next state is `Failed`
/// with the error `bad_state`, which is also the refusal.
[[nodiscard]] inline Step step(const State& state, const Event& event) {
  return step_of<Step>(state, event, [&]() -> Step {
    const auto error = std::make_shared<const Error>(
        ErrorCode::bad_state, "event_is_valid_in_the_state",
        format_text("tensor in state {} got the unexpected event {}", name_of(state), name_of(event)));
    return {Failed{error}, {}, error};
  });
}

/// Whether the answer to a map request is valid in this state. Another thread may change the state between
/// request and answer.
[[nodiscard]] inline bool accepts_map_done(const State& state) noexcept {
  return std::visit([](const auto& current) { return requires { on(current, MapDone{}); }; }, state);
}

[[nodiscard]] inline TensorResidency::Residence residence_of(const State& state) noexcept {
  return static_cast<TensorResidency::Residence>(state.index());
}

}  // namespace ht::inline v1::tensor_state
