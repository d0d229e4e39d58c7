// Verifies, reads and streams a sealed file. Timing starts before the file is opened.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/checksum/sums.hpp"
#include "bench/harness/turn.hpp"
#include "bench/harness/workload.hpp"

namespace ht::bench {

/// Writes the seal of the model next to it.
void seal(const std::filesystem::path& path);

/// Times ht::compare_with_seal, which must find no damage. The answer is the number of compared bytes.
TurnResult time_verify(const Workload& workload);

/// All threads read pieces of a mapping, which is mapped and populated in the same way as by
/// ht::compare_with_seal: the limit for a warm file. `sum` is one of the read loops.
TurnResult read_by_mapping(const Workload& workload, Sum sum);
/// The expected answer of `read_by_mapping`.
std::uint64_t expected_read_answer(const Workload& workload);

enum class Verify : bool { no, yes };
/// Times ht::stream with `staged` to an empty callback. The answer is the number of bytes passed to it.
TurnResult time_stream(const Workload& workload, Verify verify);

}  // namespace ht::bench
