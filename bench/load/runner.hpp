// Cells with their contenders, run in mixed turns, and what came of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/load/turn.hpp"

namespace ht::bench {

enum class Cache : std::uint8_t {
  cold,
  warm,
  no_file,  ///< nothing to prepare: the bytes are in memory
};

/// What pages of a cold file come into.
enum class FreeMemory : std::uint8_t {
  as_it_is,
  touched,  ///< as on a machine whose memory is its own
};

/// One table of the report: who is in the same cell does the same with the same bytes.
struct Cell {
  std::string name;
  Cache cache = Cache::no_file;
  /// The file that is to be cold or warm.
  std::filesystem::path path{};
  /// What throughput is counted with; 0 where it would say nothing.
  std::uint64_t bytes = 0;
  FreeMemory memory = FreeMemory::as_it_is;
};

enum class Kind : std::uint8_t {
  strategy,   ///< one of the library's that `automatic` could pick
  automatic,  ///< the library's, which picks
  ours,       ///< the library's in any other way
  other,      ///< what programs do without the library
  limit,      ///< what cannot be beaten
};

struct Contender {
  const Cell* cell = nullptr;
  std::string name;
  Kind kind = Kind::other;
  std::function<Turn()> run;
  std::uint64_t right_answer = 0;
  int turns_a_round = 1;
  /// Has turns in every nth round only, as no goal compares it.
  int every_rounds = 1;
  std::vector<double> seconds{};
  /// Of its last turn.
  std::string note{};

  [[nodiscard]] double median() const;
  [[nodiscard]] double best() const;
};

/// Between two values, on the line between them; `values` is not empty.
[[nodiscard]] double quantile(std::vector<double> values, double share);

/// The cells stay where they are, as contenders point to them.
struct Cells {
  std::deque<Cell> cells;
  std::vector<Contender> contenders;
};

struct RunOptions {
  int repeats = 11;
  /// Answers are all that is looked at, so a file that will not get cold is no reason to fail.
  bool smoke = false;
  /// How long the disk is left alone before each turn, for those who write much: what one has written is not
  /// yet where it will stay when its time ends, and is not to tell on the next.
  std::chrono::seconds rest{0};
};

/// From now on an interrupt is looked at between two turns, so that files of gigabytes are not left behind.
void end_orderly_when_interrupted();

/// Throws where an answer is wrong, or a file that has to be out of the page cache cannot be had out.
void run(std::vector<Contender>& contenders, const RunOptions& options);

}  // namespace ht::bench
