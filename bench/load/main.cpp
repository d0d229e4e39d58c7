// Loading a model, cold and warm: the first element of some tensors, all tensors, and one pass. Compares
// every strategy with common practice without the library and with the limits of the hardware.
#include <algorithm>
#include <string_view>

#include "bench/harness/options.hpp"
#include "bench/harness/page_cache.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/room.hpp"
#include "bench/load/cells.hpp"
#include "bench/load/goals.hpp"
#include "bench/load/high_latency_disk.hpp"
#include "bench/load/peak_memory.hpp"

namespace {

using namespace ht::bench;

/// Returns true if all goals were met.
bool run_all(const Options& options) {
  must_fit(options.bytes);
  const Folder folder(options.folder);
  const auto large = make_workload(folder / "large.safetensors", options.bytes);
  // Used on the file system with high latency, where the large file would take too long, and as the second
  // size of the measurement of peak memory.
  const auto small = make_workload(folder / "small.safetensors", options.bytes / 8);
  const Destination into(large);
  const auto disk = HighLatencyDisk::mount(small.path, folder / "high_latency");
  auto high_latency = small;
  if (disk) high_latency.path = disk->path();

  CellOptions cell_options;
  check_eviction(large.path);
  cell_options.direct = best_direct_shape(large);
  if (disk) cell_options.high_latency = &high_latency;
  auto cells = make_cells(large, into, cell_options);
  run(cells.contenders, options);

  Report report{.file_bytes = large.file_bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats};
  if (cell_options.direct) {
    report.facts = {{"direct_depth", cell_options.direct->depth},
                    {"direct_chunk_bytes", cell_options.direct->chunk_bytes}};
  }
  report.goals = goals_of(report.contenders);
  if (options.cells.empty()) {
    for (const auto* const file : {&small, &large}) report.goals.push_back(peak_memory_goal(*file));
  }
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) {
  // Modes of child processes.
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "--serve" && argc == 4)
    return exit_status_of(argv[0], [&] { return serve_high_latency_disk(argv[2], argv[3]); });
  if (mode == "--peak" && argc == 3)
    return exit_status_of(argv[0], [&] { return measure_peak_memory(argv[2]); });
  return run_main(argc, argv, {}, run_all);
}
