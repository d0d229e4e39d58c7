// Checksums of bytes in memory, of a file that is verified, and of a file that is verified during loading.
// Each is compared with the same work without a checksum.
#include <algorithm>

#include "bench/checksum/cells.hpp"
#include "bench/checksum/files.hpp"
#include "bench/harness/options.hpp"
#include "bench/harness/page_cache.hpp"
#include "bench/harness/report.hpp"
#include "bench/harness/room.hpp"

namespace {

using namespace ht::bench;

constexpr std::uint64_t small_bytes = std::uint64_t{16} << 10;

/// Returns true if all goals were met.
bool run_all(const Options& options) {
  must_fit(options.bytes);
  const Folder folder(options.folder);
  const auto file = make_workload(folder / "sealed.safetensors", options.bytes);
  seal(file.path);
  // At least one page, for any file size.
  const RandomMemory large(std::max<std::uint64_t>(options.bytes / 2 / 4096 * 4096, 4096));
  const RandomMemory small(small_bytes);
  check_eviction(file.path);

  auto cells = make_cells({.large = large, .small = small, .file = file}, options.smoke);
  run(cells.contenders, options);

  Report report{.file_bytes = file.file_bytes,
                .contenders = std::move(cells.contenders),
                .goals = {},
                .repeats = options.repeats,
                .facts = {{"memory_bytes", large.bytes().size()}}};
  report.goals = goals_of(report.contenders);
  return publish(report, options);
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, {.repeats = 7}, run_all); }
