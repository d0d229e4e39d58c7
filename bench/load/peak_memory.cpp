#include "bench/load/peak_memory.hpp"

#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>
#include <sstream>

#include "bench/harness/child.hpp"
#include "bench/harness/sum.hpp"

namespace ht::bench {
namespace {

constexpr double mebibyte = 1 << 20;

}  // namespace

int measure_peak_memory(const std::filesystem::path& path) {
  const auto model = value_of(Model::open(path));
  const Catalog& catalog = model.catalog();
  std::uint64_t sum = 0;
  const auto take = [&](const TensorPiece& piece) -> Result<void> {
    sum += sum_of(catalog[piece.index].offset + piece.offset, piece.bytes);
    return {};
  };
  // Resets the peak. If that fails, earlier memory counts too, which makes the goal stricter.
  std::ofstream("/proc/self/clear_refs") << "5";
  const auto before = status_bytes("VmRSS");
  value_of(ht::stream(model, take, {.strategy = io::Strategy::Kind::staged}));
  std::printf("%" PRIu64 " %" PRIu64 "\n", status_bytes("VmHWM") - before, sum);
  return 0;
}

MeasuredValue peak_memory_goal(const Workload& workload) {
  std::istringstream captured(run_or_fail({own_program(), "--peak", workload.path.string()}));
  std::uint64_t grown = 0;
  std::uint64_t sum = 0;
  captured >> grown >> sum;
  must(!captured.fail(), "measuring memory failed: " + captured.str());
  must(sum == workload.answers.sum, "measuring memory: the answer is wrong");
  const LoadOptions defaults;
  const double ring = static_cast<double>(defaults.chunks * defaults.chunk_bytes) / mebibyte;
  const auto file_mebibytes =
      std::to_string(std::llround(static_cast<double>(workload.file_bytes) / mebibyte));
  return {.text = "staged, file of " + file_mebibytes + " MiB: peak memory",
          .unit = "MiB",
          .value = static_cast<double>(grown) / mebibyte,
          .threshold = ring + 16,
          .at_least = false};
}

}  // namespace ht::bench
