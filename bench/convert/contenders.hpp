// Contenders that write the bytes of a model to another file. The time ends when the file is durable under
// its name.
#pragma once

#include <filesystem>
#include <string>

#include "bench/harness/turn.hpp"
#include "bench/harness/workload.hpp"

namespace ht::bench {

/// Times the library, which converts safetensors to IRPA. `share` lets the file system share blocks with the
/// source.
[[nodiscard]] TurnResult time_convert(const Workload& source, const std::filesystem::path& target,
                                      bool share = false);
/// The same with a seal.
[[nodiscard]] TurnResult time_convert_and_seal(const Workload& source, const std::filesystem::path& target);

/// Times `cp` and `sync` of the copy.
[[nodiscard]] TurnResult time_cp(const Workload& source, const std::filesystem::path& target);
/// Times `dd` with direct reads and writes.
[[nodiscard]] TurnResult time_dd(const Workload& source, const std::filesystem::path& target);
/// Returns true if the file system supports direct reads and writes.
[[nodiscard]] bool can_copy_by_dd(const Workload& source, const std::filesystem::path& target);
/// Times a loop of 1 MiB reads and writes, and an fsync.
[[nodiscard]] TurnResult time_read_write_loop(const Workload& source, const std::filesystem::path& target);

}  // namespace ht::bench
