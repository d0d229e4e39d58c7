// Functions that load a file; each way to load is in its own source file. Except for dd and memcpy, timing
// starts before the file is opened and ends when the bytes are in memory; releasing resources is not timed.
#pragma once

#include <cstdint>
#include <htensor/io/strategy.hpp>
#include <htensor/load/load.hpp>
#include <optional>

#include "bench/harness/turn.hpp"
#include "bench/harness/workload.hpp"

namespace ht::bench {

/// Bytes per read of contenders with a buffer.
inline constexpr std::uint64_t piece_bytes = std::uint64_t{8} << 20;

// std::ifstream, the most common way.
TurnResult all_by_ifstream(const Workload& workload, const Destination& into);
TurnResult one_pass_by_ifstream(const Workload& workload);
TurnResult few_by_ifstream(const Workload& workload);

// One thread that reads a mapping in order.
/// Whether madvise(MADV_WILLNEED) is called for the whole mapping.
enum class Advice : bool { none, will_need };
TurnResult all_by_mmap(const Workload& workload, Advice advice);
TurnResult one_pass_by_mmap(const Workload& workload, Advice advice);
TurnResult few_by_mmap(const Workload& workload);
TurnResult first_by_mmap(const Workload& workload);

// Only io_uring and O_DIRECT: the limit for a cold file.
struct DirectShape {
  unsigned depth = 0;
  std::uint64_t chunk_bytes = 0;
};
/// Returns the best of several shapes; nullopt if the system does not support direct reads.
std::optional<DirectShape> best_direct_shape(const Workload& workload);
TurnResult all_by_direct(const Workload& workload, const Destination& into, DirectShape shape);
TurnResult one_pass_by_direct(const Workload& workload, DirectShape shape);

// The program dd, which does not sum the bytes. Its whole process is timed. Its result is checked by the
// number of copied bytes.
enum class Through : bool { page_cache, direct };
/// Returns true if dd is installed and supports the mode.
bool can_read_by_dd(const Workload& workload, Through through);
TurnResult one_pass_by_dd(const Workload& workload, Through through);

// All processors copy from resident mapped pages: the limit for a warm file. Only the copy is timed.
TurnResult all_by_memcpy(const Workload& workload, const Destination& into);

// This library.
TurnResult all_by_load(const Workload& workload, const LoadOptions& options);
TurnResult all_by_load_into(const Workload& workload, const Destination& into);
TurnResult one_pass_by_stream(const Workload& workload, io::Strategy::Kind strategy);
TurnResult few_by_load(const Workload& workload, io::Strategy::Kind strategy);
TurnResult few_by_stream(const Workload& workload);
TurnResult first_by_open(const Workload& workload);

}  // namespace ht::bench
