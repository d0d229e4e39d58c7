// Where a tensor's bytes are, as a machine. The tensor owns its state; it asks io by requests, and io
// answers. `on` says what follows, and does nothing itself.
#pragma once

#include <htensor/base/error.hpp>
#include <htensor/model/residency.hpp>
#include <optional>
#include <string_view>
#include <variant>

#include "io/requests.hpp"

namespace ht::inline v1::residency {

/// Where the bytes are on the disk, and the mapping that has them, unless there is none.
struct Place {
  io::FileRange range{};
  io::Handle mapping{};

  [[nodiscard]] bool is_mapped() const noexcept { return mapping != io::Handle{}; }
};

// States.
struct Unbound {};  ///< its file is not there
struct Bound {      ///< its file is open, and no more
  Place place;
};
struct Mapped {
  Place place;
};
struct Loading {
  Place place;
};
struct Resident {  ///< in memory, whatever becomes of the file
  Place place;
  io::Handle block;
};
struct Evicted {  ///< was in memory, and is on the disk alone
  Place place;
};
struct Failed {
  std::shared_ptr<const Error> error;
  Place place{};
};
using State = std::variant<Unbound, Bound, Mapped, Loading, Resident, Evicted, Failed>;

// Events: what is wished for, and what io answers.
struct Bind {
  io::FileRange range;
};
struct Map {};
struct Load {
  std::uint64_t alignment = 1;
};
struct Evict {};
using io::AdviseDone;
using io::LoadDone;
using io::MapDone;
using io::ReleaseDone;
using io::RequestFailed;
using Event = std::variant<Bind, Map, Load, Evict, MapDone, LoadDone, AdviseDone, ReleaseDone, RequestFailed>;

struct Step {
  State next;
  /// What io is asked for; it is answered by one event.
  std::optional<io::Request> effect{};
  /// What whoever wished for something is told, where it cannot be.
  std::shared_ptr<const Error> refusal{};
};

// The table.
[[nodiscard]] Step on(const Unbound& state, const Bind& event);
[[nodiscard]] Step on(const Bound& state, const Map& event);
[[nodiscard]] Step on(const Bound& state, const MapDone& event);
[[nodiscard]] Step on(const Bound& state, const RequestFailed& event);
[[nodiscard]] Step on(const Bound& state, const Load& event);
[[nodiscard]] Step on(const Bound& state, const Evict& event);
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
[[nodiscard]] Step on(const Evicted& state, const MapDone& event);
[[nodiscard]] Step on(const Evicted& state, const RequestFailed& event);
[[nodiscard]] Step on(const Evicted& state, const Load& event);
[[nodiscard]] Step on(const Evicted& state, const Evict& event);
[[nodiscard]] Step on(const Failed& state, const Map& event);
[[nodiscard]] Step on(const Failed& state, const MapDone& event);
[[nodiscard]] Step on(const Failed& state, const RequestFailed& event);
[[nodiscard]] Step on(const Failed& state, const Load& event);
[[nodiscard]] Step on(const Failed& state, const Evict& event);

/// `on` where the table has the pair, else `Failed{bad_state}`.
[[nodiscard]] Step step(const State& state, const Event& event);

[[nodiscard]] Residence residence_of(const State& state) noexcept;
[[nodiscard]] std::string_view name_of(const State& state) noexcept;
[[nodiscard]] std::string_view name_of(const Event& event) noexcept;

}  // namespace ht::inline v1::residency
