// Bytes in memory, and a sum over them by one thread or by all.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/checksum/sums.hpp"
#include "bench/load/open_file.hpp"
#include "bench/load/turn.hpp"

namespace ht::bench {

/// Anonymous memory full of noise, in huge pages where the system has some.
class Noise {
 public:
  explicit Noise(std::uint64_t bytes);

  [[nodiscard]] Bytes bytes() const noexcept { return {memory_.data(), memory_.size()}; }

 private:
  Mapping memory_;
};

/// What is summed up: each thread has a part of its own.
using Parts = std::vector<Bytes>;

/// As many parts of the same size as there may be, at cache lines.
[[nodiscard]] Parts parts_of(Bytes bytes, unsigned threads);

struct SumJob {
  Sum sum = nullptr;
  Combine combine = nullptr;
  Parts parts{};
  /// How often each part is summed up in a turn: bytes that take no time are taken again and again.
  std::uint64_t passes = 1;
};

/// What the parts come to, summed up one after the other by the calling thread.
[[nodiscard]] std::uint64_t answer_of(const SumJob& job);

/// Passes that take so long.
[[nodiscard]] std::uint64_t passes_for(Sum sum, Bytes bytes, double seconds);

/// The time is that of one pass, from when all threads are ready to when all are done.
[[nodiscard]] Turn take_sum(const SumJob& job);

}  // namespace ht::bench
