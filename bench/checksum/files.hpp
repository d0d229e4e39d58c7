// Verifies, reads and streams a sealed file. Timing starts before the file is opened.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/checksum/sums.hpp"
#include "bench/turns/turn.hpp"
#include "bench/turns/workload.hpp"

namespace ht::bench {

/// Writes the seal of the model next to it.
void seal(const std::filesystem::path& path);

/// Calls ht::compare_with_seal, which must find no damage. The answer is the number of compared bytes.
Turn verified(const Workload& workload);

/// All threads read pieces of a mapping created like that of `verify`: the limit for a warm file. `sum` is
/// one of the read loops.
Turn read_by_mapping(const Workload& workload, Sum sum);
/// The expected answer of `read_by_mapping`.
std::uint64_t expected_read_answer(const Workload& workload);

enum class Verified : bool { no, yes };
/// ht::stream with `staged` to an empty callback. The answer is the number of bytes passed to it.
Turn streamed(const Workload& workload, Verified verify);

}  // namespace ht::bench
