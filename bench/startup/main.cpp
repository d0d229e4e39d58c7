// CPU time of `htensor ls` for a file of 300 tensors, minus that of an empty program.
#include <cstdio>
#include <vector>

#include "bench/catalog/headers.hpp"
#include "bench/harness/must.hpp"
#include "bench/harness/room.hpp"
#include "bench/process.hpp"
#include "bench/quantile.hpp"

namespace {

using namespace ht::bench;

constexpr double goal_ms = 0.9;

// Returns true if the goal was met.
bool run_all(bool smoke) {
  const Folder folder;
  const auto path = folder / "300.safetensors";
  value_of(make_file(path, "safetensors", value_of(expert_catalog(300))));
  // Alternating runs and medians, because the kernel accounts some runs in whole clock ticks.
  std::vector<double> listing;
  std::vector<double> empty;
  for (int i = 0; i < (smoke ? 1 : 301); ++i) {
    empty.push_back(run_process({HT_EMPTY_PROCESS}).processor_ms);
    listing.push_back(run_process({HT_PROGRAM, "ls", path.string()}).processor_ms);
  }
  const double over = quantile(listing, 0.5) - quantile(empty, 0.5);
  std::printf("htensor ls of 300 tensors: %.3f ms of processor time, an empty program %.3f ms\n",
              quantile(listing, 0.5), quantile(empty, 0.5));
  std::printf("difference %.3f ms, goal at most %.1f ms: %s\n", over, goal_ms,
              over <= goal_ms ? "met" : "MISSED");
  return over <= goal_ms;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status_of(argv[0], [&] {
    const bool smoke = is_smoke(argc, argv);
    must(smoke || argc == 1, "the only option is --smoke");
    return run_all(smoke) || smoke ? 0 : 1;
  });
}
