#include <htensor/load/load.hpp>
#include <htensor/model/model.hpp>

#include "bench/checksum/files.hpp"
#include "bench/harness/must.hpp"

namespace ht::bench {

TurnResult time_stream(const Workload& workload, Verify verify) {
  const auto nothing = [](const TensorPiece& /*piece*/) -> Result<void> { return {}; };
  const LoadOptions options{.strategy = io::Strategy::Kind::staged, .verify = verify == Verify::yes};
  const Stopwatch watch;
  const auto model = value_of(Model::open(workload.path));
  const auto loaded = value_of(ht::stream(model, nothing, options));
  const double seconds = watch.seconds();
  must(!options.verify || loaded.verified_bytes >= workload.data_bytes, "not all bytes were verified");
  return {seconds, loaded.bytes};
}

}  // namespace ht::bench
