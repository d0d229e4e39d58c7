// About how much of something large is in the page cache, told in microseconds.
#pragma once

#include <span>
#include <vector>

#include "io/chunks.hpp"

namespace ht::inline v1::io {

class Mapped;

/// Pieces that stand for all of the ranges where a question about each of their pages takes too long: evenly
/// spread, the same each time. What is not large is all there.
[[nodiscard]] std::vector<FileRange> samples_of(std::span<const FileRange> ranges);

/// The share of the ranges that is in the page cache, from 0 to 1. A system that does not tell is taken for
/// one that has nothing there.
[[nodiscard]] double cached_share(std::span<const Mapped* const> files, std::span<const FileRange> ranges);

}  // namespace ht::inline v1::io
