#include "bench/load/cells.hpp"

#include <cstdio>
#include <functional>
#include <utility>

namespace ht::bench {
namespace {

using io::Strategy;

class Builder {
 public:
  Builder(const Workload& workload, const Destination& into, const CellOptions& options)
      : file_(workload), into_(into), options_(options) {}

  Cells build() && {
    add_first();
    for (const auto cache : {Cache::cold, Cache::warm}) add_few(cache);
    for (const auto cache : {Cache::cold, Cache::warm}) add_all(cache);
    for (const auto cache : {Cache::cold, Cache::warm}) add_one_pass(cache);
    if (options_.high_latency != nullptr) add_high_latency(*options_.high_latency);
    return std::move(cells_);
  }

 private:
  static std::string named(Cache cache, const std::string& name) {
    return (cache == Cache::cold ? "cold, " : "warm, ") + name;
  }

  enum class Task : std::uint8_t {
    first,     ///< open, and read the first element
    few,       ///< open, and read the first element of some tensors
    all,       ///< make all bytes resident for repeated use
    one_pass,  ///< read every byte once
  };

  static std::uint64_t answer_of(const Workload& workload, Task task) {
    switch (task) {
      case Task::first: return workload.answers.first;
      case Task::few: return workload.answers.few;
      case Task::all: return workload.answers.samples;
      case Task::one_pass: return workload.answers.sum;
    }
    return 0;
  }

  void begin(const std::string& name, Cache cache, Task task, const Workload& workload) {
    const bool has_speed = task == Task::all || task == Task::one_pass;
    // A cold load needs free memory that is resident on the host.
    cells_.cells.push_back({.name = name,
                            .cache = cache,
                            .path = workload.path,
                            .bytes = has_speed ? workload.data_bytes : 0,
                            .memory = has_speed ? FreeMemory::touched : FreeMemory::untouched});
    expected_answer_ = answer_of(workload, task);
  }

  // Turns of microseconds are cheap and noisy, so they are repeated.
  [[nodiscard]] int turns_per_round() const { return cells_.cells.back().bytes == 0 ? 5 : 1; }
  // A goal uses `mmap walk`, so it runs in every round.
  [[nodiscard]] int every_rounds(const std::string& name, Kind kind) const {
    return kind == Kind::other && name != "mmap walk" && cells_.cells.back().bytes != 0 ? 4 : 1;
  }

  // Adds a contender to the cell begun last.
  template <class Run, class... Arguments>
  void add(const std::string& name, Kind kind, Run run, const Arguments&... arguments) {
    cells_.contenders.push_back({.cell = &cells_.cells.back(),
                                 .name = name,
                                 .kind = kind,
                                 .run = [run, arguments...] { return run(arguments...); },
                                 .expected_answer = expected_answer_,
                                 .turns_per_round = turns_per_round(),
                                 .every_rounds = every_rounds(name, kind)});
  }

  void add_first() {
    begin("cold, first", Cache::cold, Task::first, file_);
    add("htensor", Kind::strategy, first_by_open, std::cref(file_));
    add("mmap", Kind::other, first_by_mmap, std::cref(file_));
  }

  void add_few(Cache cache) {
    begin(named(cache, "few"), cache, Task::few, file_);
    add("automatic", Kind::automatic, few_by_load, std::cref(file_), Strategy::Kind::automatic);
    add("mapped", Kind::strategy, few_by_load, std::cref(file_), Strategy::Kind::mapped);
    add("read", Kind::strategy, few_by_load, std::cref(file_), Strategy::Kind::read);
    add("staged", Kind::strategy, few_by_stream, std::cref(file_));
    add("ifstream", Kind::other, few_by_ifstream, std::cref(file_));
    add("mmap", Kind::other, few_by_mmap, std::cref(file_));
  }

  void add_all(Cache cache) {
    begin(named(cache, "all"), cache, Task::all, file_);
    add("automatic", Kind::automatic, all_by_load, std::cref(file_),
        LoadOptions{.strategy = Strategy::Kind::automatic});
    add("mapped", Kind::strategy, all_by_load, std::cref(file_),
        LoadOptions{.strategy = Strategy::Kind::mapped});
    add("read", Kind::strategy, all_by_load, std::cref(file_), LoadOptions{.strategy = Strategy::Kind::read});
    // Not Kind::strategy: it loads into preallocated memory and is therefore not comparable with the
    // strategies.
    add("load_into", Kind::ours, all_by_load_into, std::cref(file_), std::cref(into_));
    add("ifstream", Kind::other, all_by_ifstream, std::cref(file_), std::cref(into_));
    add("mmap walk", Kind::other, all_by_mmap, std::cref(file_), Advice::none);
    add("mmap walk, WILLNEED", Kind::other, all_by_mmap, std::cref(file_), Advice::will_need);
    if (options_.direct) {
      add("O_DIRECT loop", limit_if(cache == Cache::cold), all_by_direct, std::cref(file_), std::cref(into_),
          *options_.direct);
    }
    if (cache == Cache::warm) add("memcpy", Kind::limit, all_by_memcpy, std::cref(file_), std::cref(into_));
  }

  void add_one_pass(Cache cache) {
    begin(named(cache, "one pass"), cache, Task::one_pass, file_);
    add("automatic", Kind::automatic, one_pass_by_stream, std::cref(file_), Strategy::Kind::automatic);
    add("staged", Kind::strategy, one_pass_by_stream, std::cref(file_), Strategy::Kind::staged);
    add("mapped", Kind::strategy, one_pass_by_stream, std::cref(file_), Strategy::Kind::mapped);
    add("ifstream", Kind::other, one_pass_by_ifstream, std::cref(file_));
    add("mmap walk", Kind::other, one_pass_by_mmap, std::cref(file_), Advice::none);
    add("mmap walk, WILLNEED", Kind::other, one_pass_by_mmap, std::cref(file_), Advice::will_need);
    if (options_.direct) {
      add("O_DIRECT loop", limit_if(cache == Cache::cold), one_pass_by_direct, std::cref(file_),
          *options_.direct);
    }
    if (dd_) add("dd", Kind::other, one_pass_by_dd, std::cref(file_), Through::page_cache);
    if (dd_direct_) add("dd iflag=direct", Kind::other, one_pass_by_dd, std::cref(file_), Through::direct);
  }

  void add_high_latency(const Workload& file) {
    begin("high latency, one pass", Cache::cold, Task::one_pass, file);
    add("staged", Kind::strategy, one_pass_by_stream, std::cref(file), Strategy::Kind::staged);
    add("mmap walk", Kind::other, one_pass_by_mmap, std::cref(file), Advice::none);
  }

  // Direct reads are the limit for a cold file only.
  static Kind limit_if(bool limit) { return limit ? Kind::limit : Kind::other; }

  static bool report_if_skipped(bool works, const char* name) {
    if (!works) std::printf("left out: %s, as it fails on this machine\n", name);
    return works;
  }

  Cells cells_;
  std::uint64_t expected_answer_ = 0;  // of the cell begun last
  const Workload& file_;
  const Destination& into_;
  const CellOptions& options_;
  bool dd_ = report_if_skipped(can_read_by_dd(file_, Through::page_cache), "dd");
  bool dd_direct_ = report_if_skipped(can_read_by_dd(file_, Through::direct), "dd iflag=direct");
};

}  // namespace

Cells make_cells(const Workload& workload, const Destination& into, const CellOptions& options) {
  return Builder(workload, into, options).build();
}

}  // namespace ht::bench
