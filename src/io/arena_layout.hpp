// Where tensors go in one piece of memory: pure arithmetic.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/io/strategy.hpp>
#include <span>
#include <vector>

namespace ht::inline v1::io {

struct ArenaLayout {
  /// Where each request's bytes begin, and which read brings them; 0 where it has none.
  std::vector<std::uint64_t> positions;
  std::vector<std::size_t> read_of;
  /// What is to be read, in the order of the files, and where to. Requests that touch or nearly do are read
  /// as one.
  std::vector<FileRange> reads;
  std::vector<std::uint64_t> read_positions;
  /// Whether some of a read's requests lie over each other, so that they share memory.
  std::vector<bool> shared;
  std::uint64_t bytes = 0;
};

/// For ranges that are in their files. What is aligned in its file lies in memory as it does in the file's
/// pages, so that it can be read past the page cache; what is not is put where it is aligned. `size_overflow`
/// where all of it is more than can be counted.
[[nodiscard]] Result<ArenaLayout> lay_out(std::span<const LoadRequest> requests);

}  // namespace ht::inline v1::io
