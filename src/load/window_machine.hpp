// A window as a machine: which layers are in memory, which one is on its way, who waits for what. What is
// true is in the states, what happens in the events; `on` says what follows, and does nothing itself. Each
// effect is answered by exactly one event, and at most one is under way; each Enter is answered once.
//
// Layers that stay have room of their own. All others share the rest, enough for two of them where the budget
// allows it: one that is entered, and the next that is not in memory. The one to make room is the one that
// will be entered last, which is the one just behind, and never one that will be entered before the one that
// the room is for.
//
// The books are made once and moved from state to state, so a step that succeeds allocates nothing.
#pragma once

#include <cstdint>
#include <htensor/base/error.hpp>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "base/machine.hpp"

namespace ht::inline v1::window {

/// `partly` from the moment when a fetch or a drop begins, and until one of them succeeds.
enum class Place : std::uint8_t { away, partly, here };

struct Books {
  struct Layer {
    std::uint64_t bytes = 0;
    bool stays = false;
    Place place = Place::away;
  };
  struct Unfetched {
    std::size_t layer;
    Error error;
  };

  std::vector<Layer> layers{};
  /// How many of them are not here.
  std::size_t missing = 0;
  /// Bytes for the layers that do not stay, and how many are taken by those that are not away.
  std::uint64_t room = 0;
  std::uint64_t taken = 0;
  std::optional<std::size_t> entered{};
  /// What could not be fetched ahead: told to who enters it. Nothing beyond it is fetched meanwhile.
  std::optional<Unfetched> unfetched{};
  /// What could not be dropped: told to who enters next. Nothing is done meanwhile.
  std::optional<Error> undropped{};
};

/// Which layers stay; nothing is in memory yet. The budget holds the largest layer.
[[nodiscard]] Books books_for(std::span<const std::uint64_t> layer_bytes, std::uint64_t budget);
/// The bytes with which the next layer can always be fetched while one is entered.
[[nodiscard]] std::uint64_t two_largest(std::span<const std::uint64_t> layer_bytes) noexcept;

enum class Action : std::uint8_t { fetch, drop };

/// To be done with a layer; answered by Done or NotDone.
struct Effect {
  Action action;
  std::size_t layer;

  friend bool operator==(const Effect&, const Effect&) = default;
};

// States.
struct Idle {
  Books books;
};  ///< nothing is under way
struct Ahead {
  Books books;
  Effect effect;
};  ///< for a layer ahead; nobody waits
struct Awaited {
  Books books;
  Effect effect;
  std::size_t wanted;
};  ///< a layer is waited for: that of the effect or another
struct Stopping {
  Error error;
};  ///< something is still under way
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
struct Done {};  ///< the effect
struct NotDone {
  Error error;
};
struct Stop {
  Error error;
};  ///< what whoever enters is told from now on
using Event = std::variant<Enter, Done, NotDone, Stop>;

/// To the Enter that was not answered yet.
struct Answer {
  /// None where the layer is entered.
  std::optional<Error> error{};
};

struct Step {
  State next;
  std::optional<Effect> effect{};
  std::optional<Answer> answer{};
};

/// What follows; `Failed{bad_state}` for an event that the state does not list, which also answers an Enter
/// that waits.
[[nodiscard]] Step step(State&& state, Event&& event);

}  // namespace ht::inline v1::window
