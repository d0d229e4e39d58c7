// A window as a state machine: which layers are in memory, which one is being fetched, and which one is
// awaited. `on` maps a state and an event to the next state, effect and answer, and has no side effects. Each
// effect is answered by exactly one event, and at most one effect is in flight; each Enter is answered once.
//
// Kept layers (`is_kept`) are never dropped after they are fetched; bytes of the budget are reserved for
// them. All other layers share the rest of the budget, which holds two of them if the budget allows it: the
// entered layer and the next layer that is not in memory. Layers are assumed to be entered in order, and the
// first again after the last. To make room, the layer that will be entered last is dropped: the layer just
// before the entered one or, if that layer is kept or absent, the nearest other layer before it. A layer is
// never dropped for one that will be entered later.
//
// The Ledger is allocated once and moved from state to state, so a successful step does not allocate.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/state_machine.hpp"

namespace ht::inline v1::window {

/// `partial` from the start of a fetch or a drop until one of them succeeds.
enum class Presence : std::uint8_t { absent, partial, present };

struct Ledger {
  struct Layer {
    std::uint64_t bytes = 0;
    bool is_kept = false;
    Presence presence = Presence::absent;
    /// A failed prefetch, returned to the next Enter of the layer. Until then, neither the layer nor a layer
    /// that will be entered after it is prefetched.
    std::optional<Error> fetch_error{};
  };

  std::vector<Layer> layers{};
  /// Number of layers that are not `present`.
  std::size_t missing = 0;
  /// Bytes of the budget for layers that are not kept.
  std::uint64_t room = 0;
  /// Bytes of `room` that are in use, by layers that are not `absent`.
  std::uint64_t taken = 0;
  std::optional<std::size_t> entered{};
  /// The error of a failed drop, returned to the next Enter. Until then, no effect is started.
  std::optional<Error> drop_error{};
};

/// Decides which layers are kept; no layer is in memory yet. The budget must hold the largest layer.
[[nodiscard]] Ledger make_ledger(std::span<const std::uint64_t> layer_bytes, std::uint64_t budget);
/// Returns the bytes needed to always fetch the next layer while one is entered.
[[nodiscard]] std::uint64_t two_largest(std::span<const std::uint64_t> layer_bytes) noexcept;

enum class Action : std::uint8_t { fetch, drop };

/// An action on a layer; answered by Done or EffectFailed.
struct Effect {
  Action action;
  std::size_t layer;

  friend bool operator==(const Effect&, const Effect&) = default;
};

// States.
struct Idle {
  Ledger ledger;
};  ///< no effect is in flight
struct Ahead {
  Ledger ledger;
  Effect effect;
};  ///< an effect of a prefetch is in flight; no Enter waits
struct Awaited {
  Ledger ledger;
  Effect effect;
  std::size_t requested;
};  ///< an Enter waits for `requested`; the effect may be for another layer
struct Stopping {
  Error error;
};  ///< an effect is still in flight
struct Stopped {
  Error error;
};
struct Failed {
  Error error;
};
using State = std::variant<Idle, Ahead, Awaited, Stopping, Stopped, Failed>;

// Events.
struct Enter {
  std::size_t layer;
};
struct Done {};  ///< the effect succeeded
struct EffectFailed {
  Error error;
};
struct Stop {
  Error error;  ///< the answer to every later Enter
};
using Event = std::variant<Enter, Done, EffectFailed, Stop>;

/// The answer to the pending Enter.
struct Answer {
  /// nullopt if the layer is entered.
  std::optional<Error> error{};
};

struct Step {
  State next;
  std::optional<Effect> effect{};
  std::optional<Answer> answer{};
};

/// Returns the next step. If the state does not accept the event, the next state is `Failed` with the error
/// `bad_state`, and the step answers a pending Enter with the same error.
[[nodiscard]] Step step(State&& state, Event&& event);

}  // namespace ht::inline v1::window
