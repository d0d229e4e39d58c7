// The `staged` strategy as a state machine: a ring of chunks, filled by concurrent reads, passed to the
// consumer in order. `on` maps a state and an event to the next state and effect, and has no side effects.
// Each effect is answered by exactly one event.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <optional>
#include <variant>

#include "base/format_text.hpp"
#include "base/state_machine.hpp"

namespace ht::inline v1::io::staged {

/// Chunk `n` uses slot `n % slots`.
struct Ring {
  static constexpr std::uint32_t max_slots = 64;

  std::uint32_t slots = 0;
  std::uint64_t begun = 0;      ///< chunks whose read was started
  std::uint64_t delivered = 0;  ///< chunks that the consumer has processed
  std::uint32_t in_flight = 0;  ///< reads in flight
  std::uint64_t filled = 0;     ///< a bit for each slot that is ready for the consumer
  bool all_begun = false;

  [[nodiscard]] std::uint32_t slot_of(std::uint64_t chunk) const noexcept {
    return static_cast<std::uint32_t>(chunk % slots);
  }
  [[nodiscard]] bool is_filled(std::uint32_t slot) const noexcept { return (filled >> slot & 1) != 0; }
  [[nodiscard]] bool has_room() const noexcept { return !all_begun && begun - delivered < slots; }
};

// States.
struct Running {
  Ring ring;
};
/// After a failure: waits for reads in flight and starts no more.
struct Draining {
  Ring ring;
  Error error;
};
struct Done {};
struct Failed {
  Error error;
};
using State = std::variant<Running, Draining, Done, Failed>;

// Events.
struct Begun {};        ///< a read was started
struct BegunRest {};    ///< the rest of a short read was started
struct NothingLeft {};  ///< no chunk is left to start
struct QueueFull {};    ///< the system's queue is full until a read completes
struct Arrived {
  std::uint32_t slot;
};  ///< all bytes of the slot were read
struct ShortRead {
  std::uint32_t slot;
};  ///< a short read: the rest is still missing
struct ReadFailed {
  Error error;
};  ///< the read is no longer in flight
struct Delivered {};  ///< the consumer has processed the chunk
struct StepFailed {
  Error error;
};  ///< any other failure: starting a read, waiting, the consumer, a stop request
using Event = std::variant<Begun, BegunRest, NothingLeft, QueueFull, Arrived, ShortRead, ReadFailed,
                           Delivered, StepFailed>;

// Effects.
struct Begin {
  std::uint32_t slot;
};  ///< starts the read of the next chunk: Begun, NothingLeft, QueueFull or StepFailed
struct BeginRest {
  std::uint32_t slot;
};  ///< starts the rest of a short read: BegunRest or StepFailed
struct Deliver {
  std::uint32_t slot;
};  ///< passes the slot to the consumer: Delivered or StepFailed
struct Await {};  ///< waits for one read: Arrived, ShortRead, ReadFailed or StepFailed
using Effect = std::variant<Begin, BeginRest, Deliver, Await>;

struct Step {
  State next;
  /// nullopt if the load has ended; `next` is Done or Failed.
  std::optional<Effect> effect;
};

// Starting reads comes first, so that the disk is never idle while the ring has room.
inline Step next_step(const Ring& ring, bool queue_is_full = false) {
  if (ring.has_room() && !queue_is_full) return {Running{ring}, Begin{ring.slot_of(ring.begun)}};
  if (ring.is_filled(ring.slot_of(ring.delivered)))
    return {Running{ring}, Deliver{ring.slot_of(ring.delivered)}};
  if (ring.in_flight > 0) return {Running{ring}, Await{}};
  if (!queue_is_full) return {Done{}, {}};
  return {
      Failed{Error(ErrorCode::internal, "queue_accepts_a_read", "read queue is full with no read in flight")},
      {}};
}

/// The first step of a load.
inline Step start(std::uint32_t slots) { return next_step({.slots = slots}); }

inline Step drain(const Ring& ring, const Error& error) {
  if (ring.in_flight > 0) return {Draining{ring, error}, Await{}};
  return {Failed{error}, {}};
}

inline Ring without_one_read(Ring ring) {
  --ring.in_flight;
  return ring;
}

// The transition table.
inline Step on(Running state, const Begun& /*event*/) {
  ++state.ring.begun;
  ++state.ring.in_flight;
  return next_step(state.ring);
}

inline Step on(Running state, const BegunRest& /*event*/) {
  ++state.ring.in_flight;
  return next_step(state.ring);
}

inline Step on(Running state, const NothingLeft& /*event*/) {
  state.ring.all_begun = true;
  return next_step(state.ring);
}

inline Step on(const Running& state, const QueueFull& /*event*/) { return next_step(state.ring, true); }

inline Step on(const Running& state, const Arrived& event) {
  Ring ring = without_one_read(state.ring);
  ring.filled |= std::uint64_t{1} << event.slot;
  return next_step(ring);
}

inline Step on(const Running& state, const ShortRead& event) {
  return {Running{without_one_read(state.ring)}, BeginRest{event.slot}};
}

inline Step on(const Running& state, const ReadFailed& event) {
  return drain(without_one_read(state.ring), event.error);
}

inline Step on(const Running& state, const Delivered& /*event*/) {
  Ring ring = state.ring;
  ring.filled &= ~(std::uint64_t{1} << ring.slot_of(ring.delivered));
  ++ring.delivered;
  return next_step(ring);
}

inline Step on(const Running& state, const StepFailed& event) { return drain(state.ring, event.error); }

template <class Event>
  requires std::same_as<Event, Arrived> || std::same_as<Event, ShortRead> || std::same_as<Event, ReadFailed>
inline Step on(const Draining& state, const Event& /*event*/) {
  return drain(without_one_read(state.ring), state.error);
}
// The wait itself failed: the queue's destructor waits for the remaining reads.
inline Step on(const Draining& state, const StepFailed& /*event*/) { return {Failed{state.error}, {}}; }

/// Calls `on` if the table has the pair, else returns `Failed{bad_state}`.
[[nodiscard]] inline Step step(const State& state, const Event& event) {
  return step_of<Step>(state, event, [&]() -> Step {
    return {Failed{Error(ErrorCode::bad_state, "event_is_valid_in_the_state",
                         format_text("staged load in state {} got the unexpected event {}", name_of(state),
                                     name_of(event)))},
            {}};
  });
}

}  // namespace ht::inline v1::io::staged
