#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/load/contenders.hpp"

namespace ht::bench {

TurnResult all_by_memcpy(const Workload& workload, const Destination& into) {
  into.overwrite_samples(workload);
  const OpenFile file(workload.path);
  const Mapping from(file, workload.file_bytes, MAP_POPULATE);
  std::atomic<std::uint64_t> next = 0;
  const auto copy = [&] {
    for (;;) {
      const auto at = next.fetch_add(piece_bytes);
      if (at >= from.size()) return;
      const auto bytes = std::min<std::uint64_t>(piece_bytes, from.size() - at);
      std::memcpy(into.data() + at, from.data() + at, static_cast<std::size_t>(bytes));
    }
  };
  const Stopwatch watch;
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(copy);
    copy();
  }
  const double seconds = watch.seconds();
  return {seconds, sample_answer(workload, into.data())};
}

}  // namespace ht::bench
