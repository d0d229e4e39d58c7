// From other orders to the one that every format has: row-major and little-endian.
#pragma once

#include <algorithm>
#include <htensor/base/result.hpp>
#include <htensor/convert/plan.hpp>
#include <htensor/format/catalog.hpp>
#include <memory>

#include "convert/target_catalog.hpp"

namespace ht::inline v1 {

/// Null where the tensor is in that order already. `unsupported_encoding` for big-endian blocks that hold
/// numbers in a way nobody has said how to turn round.
[[nodiscard]] Result<std::shared_ptr<const Turning>> turning_of(const Entry& entry);

/// Makes the entry one in that order, and says what that takes; nothing is left to do for one that was
/// turned.
[[nodiscard]] Result<void> turn(TargetTensor& tensor);
[[nodiscard]] Result<void> turn_all(std::span<TargetTensor> tensors);

/// Whole units of a stored tensor in row-major order, from the nth on; their numbers are left as they are.
void copy_units(MutableBytes units, Bytes stored, const Turning& turning, std::uint64_t nth);

/// The numbers of units become little-endian.
void turn_numbers(MutableBytes units, const Turning& turning) noexcept;

/// The most units of a column-major tensor that are copied between two polls of a stop: each may lie on a
/// page of its own.
constexpr std::size_t max_scattered_units = 4096;

/// Fills `to` with the turned tensor's bytes from `first` on, which need not begin or end with a unit.
/// `read(nth, units)` has to get whole units as `copy_units` does, at most `max_scattered_units` at once if
/// the tensor is column-major; what it fails with ends the work.
template <class Read>
Result<void> turn_into(MutableBytes to, const Turning& turning, std::uint64_t first, const Read& read) {
  const std::size_t unit = turning.unit_bytes;
  std::vector<std::byte> cut;
  while (!to.empty()) {
    const auto before = static_cast<std::size_t>(first % unit);
    const bool is_cut = before != 0 || to.size() < unit;
    if (is_cut) cut.resize(unit);
    const std::size_t whole = to.size() / unit;
    const std::size_t most = turning.column_major.empty() ? whole : std::min(whole, max_scattered_units);
    const MutableBytes units = is_cut ? MutableBytes(cut) : to.first(most * unit);
    HT_TRY(read(first / unit, units));
    turn_numbers(units, turning);
    const std::size_t count = std::min(units.size() - before, to.size());
    if (is_cut) std::ranges::copy(units.subspan(before, count), to.begin());
    to = to.subspan(count);
    first += count;
  }
  return {};
}

}  // namespace ht::inline v1
