// An estimate of how much of a large file is in the page cache, in microseconds.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "io/chunks.hpp"

namespace ht::inline v1::io {

/// Evenly spread pieces of the ranges, the same in every call; the ranges themselves where they are small.
/// Asking about every page of a large file takes too long.
[[nodiscard]] std::vector<FileRange> samples_of(std::span<const FileRange> ranges);

/// The share of the ranges that is in the page cache, from 0 to 1; nullopt where the kernel does not report
/// it for one of them (see `Port::cached`).
[[nodiscard]] std::optional<double> cached_share(const Sources& sources, std::span<const FileRange> ranges);

}  // namespace ht::inline v1::io
