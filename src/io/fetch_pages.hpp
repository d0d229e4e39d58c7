// Pages of mapped files brought into memory by several threads, ahead of the thread that uses them.
#pragma once

#include <functional>
#include <htensor/base/result.hpp>
#include <span>
#include <stop_token>

#include "io/chunks.hpp"
#include "io/tuner.hpp"

namespace ht::inline v1::io {

class MappedFile;

struct FetchOptions {
  std::uint64_t piece_bytes = std::uint64_t{4} << 20;
  /// The pages are in the page cache, so that threads have nothing to wait for.
  bool cached = false;
  /// Time the first pieces to choose engine and threads; only where `each` does not wait.
  bool tune = true;
  /// How many pieces may be fetched from the one that is handed over on, itself included.
  std::size_t max_ahead = SIZE_MAX;
  std::stop_token stop{};
};

struct FetchedBy {
  Way way{};
  double bytes_per_second = 0;
};

/// Called with each piece in order, on the thread of the caller, once its pages are in memory.
using PieceFetched = std::function<Result<void>(const FileRange& piece)>;

/// Fetches all pages of the ranges. The error is that of the lowest piece, or a bare `cancelled` after a
/// stop.
[[nodiscard]] Result<FetchedBy> fetch_pages(std::span<MappedFile* const> files,
                                            std::span<const FileRange> ranges, const PieceFetched& each,
                                            const FetchOptions& options = {});

}  // namespace ht::inline v1::io
