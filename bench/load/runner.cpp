#include "bench/load/runner.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "bench/load/free_memory.hpp"
#include "bench/load/must.hpp"
#include "bench/load/page_cache.hpp"

namespace ht::bench {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void prepare(const Cell& cell, const RunOptions& options) {
  const auto& path = cell.path;
  if (cell.cache == Cache::no_file) return;
  if (cell.cache == Cache::warm) return make_warm(path);
  if (options.smoke) {
    static_cast<void>(make_cold(path, 1));
  } else {
    must(make_cold(path),
         path.string() + " stays in the page cache, so nothing cold can be measured; try another --folder");
    if (cell.memory == FreeMemory::touched) touch_free_memory();
  }
}

void take_turn(Contender& contender, const RunOptions& options) {
  must(interrupted == 0, "interrupted");
  const Cell& cell = *contender.cell;
  prepare(cell, options);
  if (!options.smoke && options.rest.count() != 0) {
    sync();
    std::this_thread::sleep_for(options.rest);
  }
  auto turn = contender.run();
  must(turn.answer == contender.right_answer, cell.name + ", " + contender.name + ": the answer is wrong");
  contender.seconds.push_back(turn.seconds);
  contender.note = std::move(turn.note);
}

}  // namespace

double Contender::median() const {
  auto sorted = seconds;
  std::ranges::sort(sorted);
  const auto middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Contender::best() const { return std::ranges::min(seconds); }

void end_orderly_when_interrupted() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { interrupted = 1; });
}

void run(std::vector<Contender>& contenders, const RunOptions& options) {
  // Those of a cell follow each other, so that a slow moment of the machine hits alike who is compared.
  std::vector<std::vector<Contender*>> cells;
  for (auto& contender : contenders) {
    if (cells.empty() || cells.back().front()->cell != contender.cell) cells.emplace_back();
    const int turns = options.smoke ? 1 : contender.turns_a_round;
    cells.back().insert(cells.back().end(), static_cast<std::size_t>(turns), &contender);
  }
  // Another order in every run: what ran before tells on a disk, and should not tell for the same contender
  // each time.
  std::mt19937 random(std::random_device{}());
  for (int round = 1; round <= options.repeats; ++round) {
    std::fprintf(stderr, "round %d of %d\n", round, options.repeats);
    std::ranges::shuffle(cells, random);
    // Cold ones go before warm ones, as warming up takes long.
    std::ranges::partition(cells,
                           [](const auto& turns) { return turns.front()->cell->cache == Cache::cold; });
    for (auto& turns : cells) {
      std::ranges::shuffle(turns, random);
      for (auto* const turn : turns) take_turn(*turn, options);
    }
  }
}

}  // namespace ht::bench
