// Durable conversion of a safetensors model to IRPA, against copying the file with standard tools.
#include <cstdio>
#include <htensor/convert/convert.hpp>
#include <string_view>

#include "bench/convert/contenders.hpp"
#include "bench/convert/reflink_disk.hpp"
#include "bench/harness/child.hpp"
#include "bench/harness/must.hpp"
#include "bench/harness/options.hpp"
#include "bench/harness/page_cache.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/room.hpp"

namespace {

using namespace ht::bench;
using Path = std::filesystem::path;

class Builder {
 public:
  Builder(const Workload& source, const Folder& folder) : source_(source), target_(folder / "target.irpa") {}

  Cells build() && {
    const bool dd = can_copy_by_dd(source_, target_);
    if (!dd) std::printf("left out: dd, as the file system does not support direct writes\n");
    for (const auto cache : {Cache::cold, Cache::warm}) {
      cells_.cells.push_back({.name = cache == Cache::cold ? "cold" : "warm",
                              .cache = cache,
                              .path = source_.path,
                              .bytes = source_.data_bytes});
      add("convert", Kind::ours,
          [](const Workload& source, const Path& target) { return time_convert(source, target); });
      add("convert --seal", Kind::ours, time_convert_and_seal);
      add("cp + sync", Kind::other, time_cp);
      if (dd) add("dd, direct", Kind::limit, time_dd);
      add("read/write loop", Kind::other, time_read_write_loop);
    }
    return std::move(cells_);
  }

 private:
  template <class Copy>
  void add(const std::string& name, Kind kind, Copy copy) {
    const auto run = [this_source = &source_, target = target_, copy] {
      std::filesystem::remove(target);
      auto turn = copy(*this_source, target);
      std::filesystem::remove(target);
      return turn;
    };
    cells_.contenders.push_back({.cell = &cells_.cells.back(),
                                 .name = name,
                                 .kind = kind,
                                 .run = run,
                                 .expected_answer = source_.answers.samples});
  }

  const Workload& source_;
  Path target_;
  Cells cells_;
};

// Runs in the child process.
int measure_peak(const Path& source, const Path& target) {
  const auto model = value_of(ht::Model::open(source));
  value_of(ht::convert(model, target));
  std::printf("%llu\n", static_cast<unsigned long long>(status_bytes("VmHWM")));
  return 0;
}

MeasuredValue peak_goal(const Workload& source, const Path& target) {
  const auto captured = run_or_fail({own_program(), "--peak", source.path.string(), target.string()});
  std::filesystem::remove(target);
  return {.text = "peak memory of a process that converts",
          .unit = "MiB",
          .value = std::stod(captured) / (1 << 20),
          .threshold = 96,
          .at_least = false};
}

MeasuredValue sharing_goal(const Folder& folder, const Options& options) {
  MeasuredValue goal{
      .text = "shared blocks: convert --layout shared", .unit = "ms", .threshold = 150, .at_least = false};
  const auto disk = ReflinkDisk::mount(folder / "", options.bytes * 2 + (std::uint64_t{1} << 30));
  if (!disk) return goal;
  const auto source = make_workload(disk->path() / "source.safetensors", options.bytes);
  const auto target = disk->path() / "target.irpa";
  std::vector<double> times;
  for (int i = 0; i < options.repeats; ++i) {
    std::filesystem::remove(target);
    const auto turn = time_convert(source, target, true);
    must(turn.answer == source.answers.samples, "shared blocks: the answer is wrong");
    must(options.smoke || turn.note == "reflink", "shared blocks: the blocks were not shared");
    times.push_back(turn.seconds * 1e3);
  }
  goal.set(times);
  return goal;
}

/// Returns true if all goals were met.
bool run_all(const Options& options) {
  must_fit(options.bytes);
  const Folder folder(options.folder);
  const auto source = make_workload(folder / "source.safetensors", options.bytes);
  check_eviction(source.path);
  auto cells = Builder(source, folder).build();
  run(cells.contenders, options, std::chrono::seconds(3));
  Report report{.file_bytes = source.file_bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  for (const std::string cell : {"cold", "warm"}) {
    report.goals.push_back(speed_goal(report.contenders, cell, "convert", "cp + sync", 3));
    report.goals.push_back(speed_goal(report.contenders, cell, "convert", "dd, direct", 0.85));
  }
  if (options.cells.empty()) {
    report.goals.push_back(peak_goal(source, folder / "peak.irpa"));
    report.goals.push_back(sharing_goal(folder, options));
  }
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--peak")
    return exit_status_of(argv[0], [&] { return measure_peak(argv[2], argv[3]); });
  return run_main(argc, argv, {}, run_all);
}
