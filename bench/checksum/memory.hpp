// Bytes in memory, and checksums of them by one thread or by all threads.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/checksum/sums.hpp"
#include "bench/harness/open_file.hpp"
#include "bench/harness/turn.hpp"

namespace ht::bench {

/// Anonymous memory filled with random numbers, in huge pages if available.
class RandomMemory {
 public:
  explicit RandomMemory(std::uint64_t bytes);

  [[nodiscard]] Bytes bytes() const noexcept { return {memory_.data(), memory_.size()}; }

 private:
  Mapping memory_;
};

/// The input of a sum, one part per thread.
using Parts = std::vector<Bytes>;

/// Splits the bytes into `threads` parts of about equal size, at cache lines.
[[nodiscard]] Parts parts_of(Bytes bytes, unsigned threads);

struct SumJob {
  Sum sum = nullptr;
  Combine combine = nullptr;
  Parts parts{};
  /// How often a turn computes the sum of each part: more than once for small inputs.
  std::uint64_t passes = 1;
};

/// Returns the sum of all parts, computed in order on the calling thread.
[[nodiscard]] std::uint64_t answer_of(const SumJob& job);

/// Returns the number of passes that take at least `seconds`.
[[nodiscard]] std::uint64_t passes_for(Sum sum, Bytes bytes, double seconds);

/// Returns the mean time of one pass: the time from the moment that all threads are ready until all have
/// finished, divided by the number of passes.
[[nodiscard]] TurnResult run_sum(const SumJob& job);

}  // namespace ht::bench
