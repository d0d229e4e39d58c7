// The `staged` strategy as a machine: a ring of chunks, filled by reads that are under way at once, handed on
// in order. What is true is in the states, what happens in the events; `on` says what follows, and does
// nothing itself. Each effect is answered by exactly one event.
#pragma once

#include <cstdint>
#include <htensor/base/error.hpp>
#include <optional>
#include <string_view>
#include <variant>

namespace ht::inline v1::io::staged {

/// Chunks are counted; each has the slot of its number modulo the number of slots.
struct Ring {
  static constexpr std::uint32_t most_slots = 64;

  std::uint32_t slots = 0;
  std::uint64_t begun = 0;      ///< chunks whose read was begun
  std::uint64_t handed = 0;     ///< chunks that the consumer has had
  std::uint32_t under_way = 0;  ///< reads that are
  std::uint64_t filled = 0;     ///< a bit for each slot that waits to be handed on
  bool all_begun = false;

  [[nodiscard]] std::uint32_t slot_of(std::uint64_t chunk) const noexcept {
    return static_cast<std::uint32_t>(chunk % slots);
  }
  [[nodiscard]] bool is_filled(std::uint32_t slot) const noexcept { return (filled >> slot & 1) != 0; }
  [[nodiscard]] bool has_room() const noexcept { return !all_begun && begun - handed < slots; }
};

// States.
struct Idle {
  std::uint32_t slots = 1;
};
struct Running {
  Ring ring;
};
/// Something went wrong: what is under way is waited for, and nothing more is begun.
struct Draining {
  Ring ring;
  Error error;
};
struct Done {};
struct Failed {
  Error error;
};
using State = std::variant<Idle, Running, Draining, Done, Failed>;

// Events.
struct Start {};
struct Begun {};        ///< a read was
struct BegunRest {};    ///< of what came short
struct NothingLeft {};  ///< to begin
struct NoRoom {};       ///< in the system's queue, for now
struct Arrived {
  std::uint32_t slot;
};  ///< all of the slot's bytes
struct CameShort {
  std::uint32_t slot;
};  ///< some of them
struct ReadFailed {
  Error error;
};  ///< and is not under way any more
struct Handed {};  ///< to the consumer
struct Broke {
  Error error;
};  ///< anything else: beginning, waiting, the consumer, a wish to stop
using Event =
    std::variant<Start, Begun, BegunRest, NothingLeft, NoRoom, Arrived, CameShort, ReadFailed, Handed, Broke>;

// Effects.
struct Begin {
  std::uint32_t slot;
};  ///< the read of the next chunk: Begun, NothingLeft, NoRoom or Broke
struct BeginRest {
  std::uint32_t slot;
};  ///< of what came short: BegunRest or Broke
struct Hand {
  std::uint32_t slot;
};  ///< Handed or Broke
struct Await {};  ///< one read: Arrived, CameShort, ReadFailed or Broke
using Effect = std::variant<Begin, BeginRest, Hand, Await>;

struct Step {
  State next;
  /// Nothing where it is over; the state says how.
  std::optional<Effect> effect;
};

// The table.
[[nodiscard]] Step on(const Idle& state, const Start& event);
[[nodiscard]] Step on(const Running& state, const Begun& event);
[[nodiscard]] Step on(const Running& state, const BegunRest& event);
[[nodiscard]] Step on(const Running& state, const NothingLeft& event);
[[nodiscard]] Step on(const Running& state, const NoRoom& event);
[[nodiscard]] Step on(const Running& state, const Arrived& event);
[[nodiscard]] Step on(const Running& state, const CameShort& event);
[[nodiscard]] Step on(const Running& state, const ReadFailed& event);
[[nodiscard]] Step on(const Running& state, const Handed& event);
[[nodiscard]] Step on(const Running& state, const Broke& event);
[[nodiscard]] Step on(const Draining& state, const Arrived& event);
[[nodiscard]] Step on(const Draining& state, const CameShort& event);
[[nodiscard]] Step on(const Draining& state, const ReadFailed& event);
[[nodiscard]] Step on(const Draining& state, const Broke& event);

/// `on` where the table has the pair, else `Failed{bad_state}`.
[[nodiscard]] Step step(const State& state, const Event& event);

[[nodiscard]] std::string_view name_of(const State& state) noexcept;
[[nodiscard]] std::string_view name_of(const Event& event) noexcept;
[[nodiscard]] std::string_view name_of(const Effect& effect) noexcept;

}  // namespace ht::inline v1::io::staged
