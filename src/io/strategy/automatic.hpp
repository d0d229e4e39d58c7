// The `automatic` strategy: chooses one of the others and gives the reason. Also measures the share of files
// in the page cache.
#pragma once

#include <cstdint>
#include <htensor/io/strategy.hpp>
#include <optional>
#include <span>
#include <vector>

#include "io/strategy/staged.hpp"

namespace ht::inline v1::io {

struct Facts {
  /// Latency of the slowest source.
  Source::Latency latency = Source::Latency::far;
  std::uint64_t bytes = 0;
  /// nullopt if unknown (see `Source::cached`), which counts as not cached.
  std::optional<std::uint64_t> cached_bytes = 0;
  /// Memory that `read` needs for the bytes, with padding.
  std::uint64_t memory_bytes = 0;
  std::uint64_t budget_bytes = 0;
  /// Whether the caller has set the budget. If not, it is an estimate of the free memory, and cached pages do
  /// not count against it.
  bool budget_is_set = false;
  /// Whether all sources can be mapped.
  bool can_map = true;
  Strategy::Use use = Strategy::Use::all;
};

/// The share of the available memory that one load may use; the rest is for other processes.
[[nodiscard]] constexpr std::uint64_t usable_memory(std::uint64_t available_memory) noexcept {
  return available_memory / 8 * 7;
}

/// Returns one of `mapped`, `read` and `staged`.
[[nodiscard]] Strategy::Choice choose(const Facts& facts);

/// Returns evenly spread pieces of the ranges, the same in every call; the ranges themselves if they are
/// small. Querying every page of a large file takes too long.
[[nodiscard]] std::vector<FileRange> samples_of(std::span<const FileRange> ranges);

/// Returns the share of `samples_of(ranges)` that is in the page cache, from 0 to 1; nullopt if it is unknown
/// for one of the sources (see `Source::cached`).
[[nodiscard]] std::optional<double> cached_share(const Sources& sources, std::span<const FileRange> ranges);

}  // namespace ht::inline v1::io
