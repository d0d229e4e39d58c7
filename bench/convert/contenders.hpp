// Contenders that write the bytes of a model to another file. The time ends when the file is durable under
// its name.
#pragma once

#include <filesystem>
#include <string>

#include "bench/turns/turn.hpp"
#include "bench/turns/workload.hpp"

namespace ht::bench {

/// safetensors to IRPA by the library. `share` lets the file system share blocks with the source.
[[nodiscard]] Turn converted(const Workload& source, const std::filesystem::path& target, bool share = false);
/// The same with a seal.
[[nodiscard]] Turn converted_and_sealed(const Workload& source, const std::filesystem::path& target);

/// `cp` and `sync` of the copy.
[[nodiscard]] Turn copied_by_cp(const Workload& source, const std::filesystem::path& target);
/// `dd` with direct reads and writes.
[[nodiscard]] Turn copied_by_dd(const Workload& source, const std::filesystem::path& target);
/// Returns true if the file system supports direct reads and writes.
[[nodiscard]] bool can_copy_by_dd(const Workload& source, const std::filesystem::path& target);
/// A loop of 1 MiB reads and writes.
[[nodiscard]] Turn copied_by_loop(const Workload& source, const std::filesystem::path& target);

}  // namespace ht::bench
