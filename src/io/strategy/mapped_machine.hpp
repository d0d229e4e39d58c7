// The `mapped` strategy for one source as a state machine. `on` maps a state and an event to the next state
// and effect, and has no side effects. `MapWhole` is followed by an event with its result, `Repeat` by the
// same request. All other effects answer the request.
#pragma once

#include <htensor/base/result.hpp>
#include <variant>

#include "base/format_text.hpp"
#include "base/state_machine.hpp"

namespace ht::inline v1::io::mapped {

// States.
struct Unmapped {};
struct Mapping {};  ///< the mapping of the whole source is in progress
struct Whole {};    ///< the whole source is mapped
/// The source cannot be mapped as a whole: each request maps its own range. The address space has no room for
/// the whole source, or the source is copied, because it is not a file and the mapping is private.
struct Windowed {};
struct Failed {
  Error error;
};
using State = std::variant<Unmapped, Mapping, Whole, Windowed, Failed>;

// Events: requests, and results of effects.
struct Map {};
struct Advise {};
struct Drop {};  ///< advice that drops pages
struct WholeMapped {};
struct NoRoom {};  ///< the source cannot be mapped as a whole, see Windowed
struct MapFailed {
  Error error;
};
using Event = std::variant<Map, Advise, Drop, WholeMapped, NoRoom, MapFailed>;

// Effects.
struct MapWhole {};  ///< maps the whole source: WholeMapped, NoRoom or MapFailed
struct Repeat {};    ///< repeats the request in the new state
// Answers to the request.
struct ReturnView {};    ///< returns the range of the whole mapping
struct ReturnWindow {};  ///< maps or copies the range for this request
struct AdvisePages {};   ///< applies the advice to the range of the whole mapping
struct AdviseWindow {};  ///< applies the advice to temporary mappings of the range
/// Drops the pages of the range from the whole mapping, if there is one; for `Advice::evict` also from the
/// page cache.
struct DropPages {};
struct Refuse {
  Error error;
};
using Effect =
    std::variant<MapWhole, Repeat, ReturnView, ReturnWindow, AdvisePages, AdviseWindow, DropPages, Refuse>;

struct Step {
  State next;
  Effect effect;
};

// The transition table.
inline Step on(const Unmapped& /*state*/, const Map& /*event*/) { return {Mapping{}, MapWhole{}}; }
inline Step on(const Unmapped& /*state*/, const Advise& /*event*/) { return {Mapping{}, MapWhole{}}; }
// Nothing is mapped, but pages may be in the page cache.
inline Step on(const Unmapped& state, const Drop& /*event*/) { return {state, DropPages{}}; }

inline Step on(const Mapping& /*state*/, const WholeMapped& /*event*/) { return {Whole{}, Repeat{}}; }
inline Step on(const Mapping& /*state*/, const NoRoom& /*event*/) { return {Windowed{}, Repeat{}}; }
// The next request retries.
inline Step on(const Mapping& /*state*/, const MapFailed& event) { return {Unmapped{}, Refuse{event.error}}; }

inline Step on(const Whole& state, const Map& /*event*/) { return {state, ReturnView{}}; }
inline Step on(const Whole& state, const Advise& /*event*/) { return {state, AdvisePages{}}; }
inline Step on(const Whole& state, const Drop& /*event*/) { return {state, DropPages{}}; }

inline Step on(const Windowed& state, const Map& /*event*/) { return {state, ReturnWindow{}}; }
inline Step on(const Windowed& state, const Advise& /*event*/) { return {state, AdviseWindow{}}; }
inline Step on(const Windowed& state, const Drop& /*event*/) { return {state, DropPages{}}; }

/// Calls `on` if the table has the pair, else returns `Failed{bad_state}`.
[[nodiscard]] inline Step step(const State& state, const Event& event) {
  return step_of<Step>(state, event, [&]() -> Step {
    const Error error(
        ErrorCode::bad_state, "event_is_valid_in_the_state",
        format_text("a mapping in state {} got the unexpected event {}", name_of(state), name_of(event)));
    return {Failed{error}, Refuse{error}};
  });
}

}  // namespace ht::inline v1::io::mapped
