// Runs the contenders of each cell in random order and stores their times.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/harness/options.hpp"
#include "bench/harness/turn.hpp"

namespace ht::bench {

enum class Cache : std::uint8_t {
  cold,
  warm,
  no_file,  ///< no preparation: the bytes are in memory
};

/// The state of free memory before a cold load.
enum class FreeMemory : std::uint8_t {
  untouched,
  touched,  ///< made resident first, as on a physical machine
};

/// A measured case: one task on one input in one state of the page cache. All contenders of a cell do the
/// same work on the same bytes. A cell is printed as one table and plotted as one column.
struct Cell {
  std::string name;
  Cache cache = Cache::no_file;
  /// The file that is made cold or warm.
  std::filesystem::path path{};
  /// Bytes for the throughput; 0 if throughput is not meaningful.
  std::uint64_t bytes = 0;
  FreeMemory memory = FreeMemory::untouched;
};

enum class Kind : std::uint8_t {
  strategy,   ///< a strategy of the library that `automatic` could select
  automatic,  ///< the library, which selects a strategy
  ours,       ///< the library, used in any other way
  other,      ///< common practice without the library
  limit,      ///< does only the work that is unavoidable; its speed bounds that of the others
};

struct Contender {
  const Cell* cell = nullptr;
  std::string name;
  Kind kind = Kind::other;
  std::function<TurnResult()> run;
  std::uint64_t expected_answer = 0;
  int turns_per_round = 1;
  /// Runs in every nth round only. More than 1 for contenders that no goal compares.
  int every_rounds = 1;
  std::vector<double> seconds{};
  /// Note of the last turn.
  std::string note{};

  [[nodiscard]] double median() const;
  [[nodiscard]] double best() const;
};

/// Runs one turn, which is not counted, and returns a contender that expects the answer of this turn.
[[nodiscard]] Contender make_contender(const Cell& cell, std::string name, Kind kind,
                                       std::function<TurnResult()> run);

/// A deque, because contenders point to the cells.
struct Cells {
  std::deque<Cell> cells;
  std::vector<Contender> contenders;
};

/// Removes the contenders of cells that the options do not select, and runs the others. `rest` is a pause
/// before each turn, for contenders that write much: the disk may still be writing data of the previous
/// contender. Throws if no contender is left, if an answer is wrong, or if a file cannot be evicted from the
/// page cache.
void run(std::vector<Contender>& contenders, const Options& options, std::chrono::seconds rest = {});

/// The main function of a benchmark. Calls `run_all` with the options, of which `defaults` are the defaults.
/// Returns the exit status: 0 if `run_all` returns true, 1 if a goal was missed, 2 after an exception, which
/// is printed. An interrupt is handled between turns, so that large temporary files are deleted.
[[nodiscard]] int run_main(int argc, char** argv, const Options& defaults, bool (*run_all)(const Options&));

}  // namespace ht::bench
