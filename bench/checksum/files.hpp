// A sealed file, verified and loaded. What is timed begins with opening it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/checksum/sums.hpp"
#include "bench/load/turn.hpp"
#include "bench/load/workload.hpp"

namespace ht::bench {

/// Writes the seal of the model beside it.
void seal(const std::filesystem::path& path);

/// ht::verify, which has to find it intact: the answer is how many bytes were compared.
Turn verified(const Workload& workload);

/// All threads read pieces of a mapping that is made as `verify` makes its own: the limit of a warm file.
/// `sum` is one of the read loops.
Turn read_by_mapping(const Workload& workload, Sum sum);
/// What that has to come to.
std::uint64_t right_read(const Workload& workload);

/// ht::stream by `staged` to a consumer that does nothing: the answer is how many bytes it was handed.
enum class Verified : bool { no, yes };
Turn streamed(const Workload& workload, Verified verify);

}  // namespace ht::bench
