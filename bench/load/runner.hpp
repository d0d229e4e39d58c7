// Cells with their contenders, run in mixed turns, and what came of them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/load/contenders.hpp"

namespace ht::bench {

enum class Cache : bool { cold, warm };
enum class What : std::uint8_t {
  first,     ///< open, and look at the first element
  few,       ///< open, and look at the first element of some tensors
  all,       ///< have all bytes in memory, to be used over and over
  one_pass,  ///< look at every byte once
};

/// One table of the report: who is in the same cell does the same with the same file.
struct Cell {
  std::string name;
  Cache cache = Cache::cold;
  What what = What::all;
  const Workload* workload = nullptr;

  /// What throughput is counted with; 0 where it would say nothing.
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    return what == What::all || what == What::one_pass ? workload->data_bytes : 0;
  }
  [[nodiscard]] std::uint64_t right_answer() const noexcept;
};

enum class Kind : std::uint8_t {
  strategy,      ///< one of the library's that `automatic` could pick
  automatic,     ///< the library's, which picks
  given_memory,  ///< the library's, into memory of the caller's
  other,         ///< what programs do without the library
  limit,         ///< what cannot be beaten
};

struct Contender {
  const Cell* cell = nullptr;
  std::string name;
  Kind kind = Kind::other;
  std::function<Turn()> run;
  std::vector<double> seconds{};
  /// Of its last turn.
  std::string note{};

  [[nodiscard]] double median() const;
  [[nodiscard]] double best() const;
};

struct RunOptions {
  int repeats = 5;
  /// Answers are all that is looked at, so a file that will not get cold is no reason to fail.
  bool smoke = false;
};

/// From now on an interrupt is looked at between two turns, so that files of gigabytes are not left behind.
void end_orderly_when_interrupted();

/// Throws where an answer is wrong, or a file that has to be out of the page cache cannot be had out.
void run(std::vector<Contender>& contenders, const RunOptions& options);

}  // namespace ht::bench
