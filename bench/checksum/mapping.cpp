#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "bench/checksum/files.hpp"
#include "bench/harness/open_file.hpp"
#include "bench/harness/read_loop.hpp"

namespace ht::bench {
namespace {

// The piece size of ht::compare_with_seal.
constexpr std::uint64_t piece_bytes = std::uint64_t{4} << 20;

void populate(Bytes piece) {
#ifdef MADV_POPULATE_READ
  // On kernels without MADV_POPULATE_READ, page faults read the pages one by one.
  static_cast<void>(::madvise(const_cast<std::byte*>(piece.data()), piece.size(), MADV_POPULATE_READ));
#else
  static_cast<void>(piece);
#endif
}

std::uint64_t read_all(const Mapping& mapping, Sum sum) {
  std::atomic<std::uint64_t> next = 0;
  std::atomic<std::uint64_t> all = 0;
  const auto read = [&] {
    for (;;) {
      const auto at = next.fetch_add(piece_bytes);
      if (at >= mapping.size()) return;
      const auto bytes = std::min<std::uint64_t>(piece_bytes, mapping.size() - at);
      const Bytes piece(mapping.data() + at, static_cast<std::size_t>(bytes));
      populate(piece);
      all ^= sum(piece);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(read);
    read();
  }
  return all;
}

}  // namespace

TurnResult read_by_mapping(const Workload& workload, Sum sum) {
  const Stopwatch watch;
  std::uint64_t answer = 0;
  {
    // Unmapping is timed, as in time_verify.
    const OpenFile file(workload.path);
    const Mapping mapping(file, workload.file_bytes);
    answer = read_all(mapping, sum);
  }
  return {watch.seconds(), answer};
}

std::uint64_t expected_read_answer(const Workload& workload) {
  const OpenFile file(workload.path);
  const Mapping mapping(file, workload.file_bytes);
  return by_plain_read({mapping.data(), mapping.size()});
}

}  // namespace ht::bench
