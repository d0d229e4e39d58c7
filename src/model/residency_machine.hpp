// Where a tensor's bytes are, as a machine. The tensor owns its state; it asks a strategy by requests, and
// the strategy answers each with one event. `on` says what follows and performs nothing.
#pragma once

#include <htensor/base/error.hpp>
#include <htensor/io/strategy.hpp>
#include <htensor/model/residency.hpp>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

namespace ht::inline v1::tensor_state {

// States.
struct Unbound {};  ///< its file is missing or not mapped yet
struct Mapped {};   ///< its file is
struct Loading {};
struct Resident {  ///< in memory, whatever happens to the file
  io::Memory memory;
  std::shared_ptr<io::Strategy> strategy;  ///< which has loaded it
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
using io::AdviseDone;
using io::ReleaseDone;
using io::RequestFailed;
using Event = std::variant<Map, Load, Evict, MapDone, LoadDone, AdviseDone, ReleaseDone, RequestFailed>;

/// The request to the strategy, which is answered by one event.
enum class Ask : std::uint8_t { map, load, drop_pages, release };

struct Step {
  State next;
  std::optional<Ask> effect{};
  /// The error for the user whose request cannot be carried out.
  std::shared_ptr<const Error> refusal{};
};

// The table.
[[nodiscard]] Step on(const Unbound& state, const Map& event);
[[nodiscard]] Step on(const Unbound& state, const Load& event);
[[nodiscard]] Step on(const Unbound& state, const Evict& event);
[[nodiscard]] Step on(const Unbound& state, const MapDone& event);
[[nodiscard]] Step on(const Unbound& state, const AdviseDone& event);
[[nodiscard]] Step on(const Unbound& state, const RequestFailed& event);
[[nodiscard]] Step on(const Mapped& state, const Map& event);
[[nodiscard]] Step on(const Mapped& state, const Load& event);
[[nodiscard]] Step on(const Mapped& state, const Evict& event);
[[nodiscard]] Step on(const Mapped& state, const AdviseDone& event);
[[nodiscard]] Step on(const Mapped& state, const RequestFailed& event);
[[nodiscard]] Step on(const Loading& state, const Map& event);
[[nodiscard]] Step on(const Loading& state, const Load& event);
[[nodiscard]] Step on(const Loading& state, const Evict& event);
[[nodiscard]] Step on(const Loading& state, const LoadDone& event);
[[nodiscard]] Step on(const Loading& state, const RequestFailed& event);
[[nodiscard]] Step on(const Resident& state, const Map& event);
[[nodiscard]] Step on(const Resident& state, const Load& event);
[[nodiscard]] Step on(const Resident& state, const Evict& event);
[[nodiscard]] Step on(const Resident& state, const ReleaseDone& event);
[[nodiscard]] Step on(const Resident& state, const RequestFailed& event);
[[nodiscard]] Step on(const Evicted& state, const Map& event);
[[nodiscard]] Step on(const Evicted& state, const Load& event);
[[nodiscard]] Step on(const Evicted& state, const Evict& event);
[[nodiscard]] Step on(const Evicted& state, const MapDone& event);
[[nodiscard]] Step on(const Evicted& state, const AdviseDone& event);
[[nodiscard]] Step on(const Evicted& state, const RequestFailed& event);
[[nodiscard]] Step on(const Failed& state, const Map& event);
[[nodiscard]] Step on(const Failed& state, const Load& event);
[[nodiscard]] Step on(const Failed& state, const Evict& event);
[[nodiscard]] Step on(const Failed& state, const MapDone& event);
[[nodiscard]] Step on(const Failed& state, const AdviseDone& event);
[[nodiscard]] Step on(const Failed& state, const RequestFailed& event);

/// `on` where the table has the pair, else `Failed{bad_state}`.
[[nodiscard]] Step step(const State& state, const Event& event);

[[nodiscard]] Residence residence_of(const State& state) noexcept;
[[nodiscard]] std::string_view name_of(const State& state) noexcept;
[[nodiscard]] std::string_view name_of(const Event& event) noexcept;

}  // namespace ht::inline v1::tensor_state
