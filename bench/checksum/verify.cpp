#include <htensor/integrity/seal.hpp>
#include <htensor/model/model.hpp>

#include "bench/checksum/files.hpp"
#include "bench/harness/must.hpp"

namespace ht::bench {

void seal(const std::filesystem::path& path) {
  const auto model = value_of(Model::open(path));
  static_cast<void>(value_of(ht::seal(model)));
}

TurnResult time_verify(const Workload& workload) {
  const Stopwatch watch;
  const auto found = value_of(compare_with_seal(workload.path));
  const double seconds = watch.seconds();
  value_of(found.result());
  return {seconds, found.checked_bytes};
}

}  // namespace ht::bench
