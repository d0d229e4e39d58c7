// Each way of loading, one file a contender. What is timed begins with opening the file and ends when the
// bytes are there; giving back what was taken is not.
#pragma once

#include <cstdint>
#include <htensor/io/strategy.hpp>
#include <htensor/load/load.hpp>
#include <optional>

#include "bench/load/turn.hpp"
#include "bench/load/workload.hpp"

namespace ht::bench {

/// Bytes that are read at a time by whoever has a buffer.
inline constexpr std::uint64_t piece_bytes = std::uint64_t{8} << 20;

// std::ifstream, as most programs read.
Turn all_by_ifstream(const Workload& workload, const Destination& into);
Turn one_pass_by_ifstream(const Workload& workload);
Turn few_by_ifstream(const Workload& workload);

// One thread that walks over a mapping.
enum class Ahead : bool { no, will_need };
Turn all_by_mmap(const Workload& workload, Ahead ahead);
Turn one_pass_by_mmap(const Workload& workload, Ahead ahead);
Turn few_by_mmap(const Workload& workload);
Turn first_by_mmap(const Workload& workload);

// Nothing but io_uring and O_DIRECT: the limit of a cold file.
struct DirectShape {
  unsigned depth = 0;
  std::uint64_t chunk_bytes = 0;
};
/// The best of some, or nothing where the system refuses such reads.
std::optional<DirectShape> best_direct_shape(const Workload& workload);
Turn all_by_direct(const Workload& workload, const Destination& into, DirectShape shape);
Turn one_pass_by_direct(const Workload& workload, DirectShape shape);

// The program dd, which looks at nothing: its answer is that it copied all bytes.
enum class Through : bool { page_cache, direct };
/// Whether it is there and can.
bool dd_works(const Workload& workload, Through through);
Turn one_pass_by_dd(const Workload& workload, Through through);

// All processors copy from mapped pages that are there: the limit of a warm file.
Turn all_by_memcpy(const Workload& workload, const Destination& into);

// This library.
Turn all_by_load(const Workload& workload, const LoadOptions& how);
Turn all_by_load_into(const Workload& workload, const Destination& into);
Turn one_pass_by_stream(const Workload& workload, io::StrategyKind strategy);
Turn few_by_load(const Workload& workload, io::StrategyKind strategy);
Turn few_by_stream(const Workload& workload);
Turn first_by_open(const Workload& workload);

}  // namespace ht::bench
