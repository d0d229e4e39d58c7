#include "bench/harness/runner.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <random>
#include <thread>

#include "bench/harness/free_memory.hpp"
#include "bench/harness/must.hpp"
#include "bench/harness/page_cache.hpp"
#include "bench/quantile.hpp"

namespace ht::bench {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void prepare(const Cell& cell, const Options& options) {
  const auto& path = cell.path;
  if (cell.cache == Cache::no_file) return;
  if (cell.cache == Cache::warm) return make_warm(path);
  if (options.smoke) {
    static_cast<void>(make_cold(path, 1));
  } else {
    must(make_cold(path),
         path.string() + " stays in the page cache, so nothing cold can be measured; try another --folder");
    if (cell.memory == FreeMemory::touched)
      touch_free_memory(3 * cell.bytes);  // page cache, library memory and a margin
  }
}

void run_turn(Contender& contender, const Options& options, std::chrono::seconds rest) {
  must(interrupted == 0, "interrupted");
  const Cell& cell = *contender.cell;
  prepare(cell, options);
  if (!options.smoke && rest.count() != 0) {
    sync();
    std::this_thread::sleep_for(rest);
  }
  auto turn = contender.run();
  must(turn.answer == contender.expected_answer, cell.name + ", " + contender.name + ": the answer is wrong");
  contender.seconds.push_back(turn.seconds);
  contender.note = std::move(turn.note);
}

int max_turns(const std::vector<Contender*>& cell) {
  int turns = 0;
  for (const auto* const one : cell) turns = std::max(turns, one->turns_per_round);
  return turns;
}

}  // namespace

double Contender::median() const { return quantile(seconds, 0.5); }

double Contender::best() const { return std::ranges::min(seconds); }

Contender make_contender(const Cell& cell, std::string name, Kind kind, std::function<TurnResult()> run) {
  Contender made{.cell = &cell, .name = std::move(name), .kind = kind, .run = std::move(run)};
  made.expected_answer = made.run().answer;
  return made;
}

void run(std::vector<Contender>& contenders, const Options& options, std::chrono::seconds rest) {
  std::erase_if(contenders, [&](const Contender& one) { return !options.selects(one.cell->name); });
  must(!contenders.empty(), "no cell has a name that contains the text of --cells");
  // Contenders of a cell run in succession, so that a slow phase of the machine affects all of them.
  std::vector<std::vector<Contender*>> cells;
  for (auto& contender : contenders) {
    if (cells.empty() || cells.back().front()->cell != contender.cell) cells.emplace_back();
    cells.back().push_back(&contender);
  }
  // Random order, because a turn may depend on the previous one.
  std::mt19937 random(std::random_device{}());
  for (int round = 1; round <= options.repeats; ++round) {
    std::fprintf(stderr, "round %d of %d\n", round, options.repeats);
    std::ranges::shuffle(cells, random);
    // Cold cells run before warm ones. Otherwise each warm cell after a cold one would read its file from the
    // disk again.
    std::ranges::partition(cells, [](const auto& cell) { return cell.front()->cell->cache == Cache::cold; });
    for (auto& cell : cells) {
      std::ranges::shuffle(cell, random);
      // One turn of each contender per pass, so the nth turns of two contenders form a pair.
      for (int turn = 0; turn < (options.smoke ? 1 : max_turns(cell)); ++turn) {
        for (auto* const one : cell) {
          if (turn < one->turns_per_round && (round - 1) % one->every_rounds == 0)
            run_turn(*one, options, rest);
        }
      }
    }
  }
}

int run_main(int argc, char** argv, const Options& defaults, bool (*run_all)(const Options&)) {
  return exit_status_of(argv[0], [&] {
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { interrupted = 1; });
    return run_all(parse_options(argc, argv, defaults)) ? 0 : 1;
  });
}

}  // namespace ht::bench
