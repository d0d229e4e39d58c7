// Opening must cost the same for any size: 1 MiB, 1 GiB and 1 TiB, all sparse, in one run.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <htensor/htensor.hpp>
#include <string>
#include <vector>

#include "bench/harness/must.hpp"
#include "bench/harness/room.hpp"
#include "bench/microbenchmarks.hpp"
#include "bench/open/task.hpp"

namespace {

using namespace ht::bench;

constexpr float first = 1.5F;
constexpr float last = 2.5F;

ht::Result<void> make(const std::filesystem::path& path, std::int64_t side) {
  const auto bytes = static_cast<std::uint64_t>(side * side) * sizeof(float);
  const std::vector<ht::DataPiece> pieces{{0, std::as_bytes(std::span(&first, 1))},
                                          {bytes - sizeof(float), std::as_bytes(std::span(&last, 1))}};
  std::size_t next = 0;
  return ht::write(path, ht::dtype_info<ht::F32>(), std::vector<std::int64_t>{side, side},
                   [&]() -> ht::Result<std::optional<ht::DataPiece>> {
                     if (next == pieces.size()) return std::nullopt;
                     return pieces[next++];
                   });
}

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Returns the growth of resident memory after opening the file and reading one element.
ht::Result<std::int64_t> resident_growth(const std::filesystem::path& path) {
  const auto before = resident_bytes();
  const auto model = HT_TRY(ht::Model::open(path));
  const auto matrix = HT_TRY(model.tensor<ht::F32, ht::Rank<2>>(model.catalog()[0].name));
  HT_TRY(matrix.at(matrix.extent(0) - 1, matrix.extent(1) - 1));
  return resident_bytes() - before;
}

using Open = float (*)(const std::filesystem::path&, Access);

void add(const std::string& name, Open open, Access access, const std::filesystem::path& path) {
  benchmark::RegisterBenchmark(name.c_str(), [open, access, path](benchmark::State& state) {
    const float expected = access == Access::both_ends ? first + last : last;
    for (auto _ : state) {
      if (open(path, access) != expected) state.SkipWithError("the elements are wrong");
    }
  });
}

int run_all(int argc, char** argv) {
  const Folder folder;
  bool too_large = false;
  const std::vector<std::pair<std::string, int>> sizes{{"1MiB", 9}, {"1GiB", 14}, {"1TiB", 19}};
  for (const auto& [size, bits] : sizes) {
    const auto path = folder / (size + ".ht");
    value_of(make(path, std::int64_t{1} << bits));
    const auto growth = value_of(resident_growth(path));
    std::printf("%s: resident memory grows by %lld KiB while it is open, goal below 1024 KiB: %s\n",
                size.c_str(), static_cast<long long>(growth / 1024), growth < 1 << 20 ? "met" : "MISSED");
    if (growth >= 1 << 20) too_large = true;
    for (const auto& [access, prefix] :
         {std::pair(Access::last_element, "open/"), std::pair(Access::both_ends, "open_ends/")}) {
      add(prefix + ("htensor/" + size), open_by_htensor, access, path);
      add(prefix + ("mmap/" + size), open_by_mmap, access, path);
    }
  }
  const int status = run_and_compare(
      argc, argv,
      {{"open/htensor/1TiB", "open/htensor/1MiB", 1.2}, {"open/htensor/1TiB", "open/mmap/1TiB", 2.0}});
  return too_large ? 1 : status;
}

}  // namespace

int main(int argc, char** argv) {
  return exit_status_of(argv[0], [&] { return run_all(argc, argv); });
}
