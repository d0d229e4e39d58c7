#include <htensor/convert/convert.hpp>

#include "bench/convert/contenders.hpp"
#include "bench/harness/must.hpp"

namespace ht::bench {
namespace {

TurnResult convert_by(const Workload& source, const std::filesystem::path& target,
                      const ConvertOptions& options, const ApplyOptions& apply) {
  const Stopwatch watch;
  const auto model = value_of(Model::open(source.path));
  const auto done = value_of(convert(model, target, options, apply));
  const double seconds = watch.seconds();
  const auto written = value_of(Model::open(target));
  const auto answer = sample_answer(
      source, [&](const TensorRange& range) { return value_of(written.storage(range.name)).bytes(); });
  const auto& by = done.copied_by;
  const char* const way = by.reflink > by.direct      ? "reflink"
                          : by.direct > by.read_write ? "direct"
                                                      : "read_write";
  return {seconds, answer, way};
}

}  // namespace

TurnResult time_convert(const Workload& source, const std::filesystem::path& target, bool share) {
  return convert_by(source, target, {.share_blocks = share}, {});
}

TurnResult time_convert_and_seal(const Workload& source, const std::filesystem::path& target) {
  auto turn = convert_by(source, target, {}, {.seal = true});
  std::filesystem::remove(target.string() + ".htseal");
  return turn;
}

}  // namespace ht::bench
