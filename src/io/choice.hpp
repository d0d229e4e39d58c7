// The `automatic` strategy: which of the others, and why; and the share of a file that is in the page cache.
#pragma once

#include <cstdint>
#include <htensor/io/strategy.hpp>
#include <optional>
#include <span>
#include <vector>

#include "io/staged.hpp"

namespace ht::inline v1::io {

struct Facts {
  /// That of the slowest source.
  Latency latency = Latency::far;
  std::uint64_t bytes = 0;
  /// nullopt: unknown (see `Source::cached`), and no choice is based on it.
  std::optional<std::uint64_t> cached_bytes = 0;
  /// Memory that `read` needs for them, with padding.
  std::uint64_t memory_bytes = 0;
  std::uint64_t budget_bytes = 0;
  /// The caller has set the budget. Else it is an estimate of the free memory, of which pages that are in
  /// memory already take none.
  bool budget_is_set = false;
  /// Whether all sources can be mapped.
  bool can_map = true;
  Use use = Use::all;
};

/// The share of the available memory that one load may use; the rest is for other processes.
[[nodiscard]] constexpr std::uint64_t most_of(std::uint64_t available_memory) noexcept {
  return available_memory / 8 * 7;
}

/// One of `mapped`, `read` and `staged`.
[[nodiscard]] Choice choose(const Facts& facts);

/// Evenly spread pieces of the ranges, the same in every call; the ranges themselves where they are small.
/// Asking about every page of a large file takes too long.
[[nodiscard]] std::vector<FileRange> samples_of(std::span<const FileRange> ranges);

/// The share of the ranges that is in the page cache, from 0 to 1; nullopt where the kernel does not report
/// it for one of them (see `Port::cached`).
[[nodiscard]] std::optional<double> cached_share(const Sources& sources, std::span<const FileRange> ranges);

}  // namespace ht::inline v1::io
