// Those who make another file of a model's bytes. Each has it on the disk, under its name, when its time
// ends.
#pragma once

#include <filesystem>
#include <string>

#include "bench/load/turn.hpp"
#include "bench/load/workload.hpp"

namespace ht::bench {

/// safetensors to IRPA by the library; with `share`, so that blocks can be shared with the source.
[[nodiscard]] Turn converted(const Workload& source, const std::filesystem::path& target, bool share = false);
/// The same with a seal.
[[nodiscard]] Turn converted_and_sealed(const Workload& source, const std::filesystem::path& target);

/// `cp` and `sync` of the copy.
[[nodiscard]] Turn copied_by_cp(const Workload& source, const std::filesystem::path& target);
/// `dd` past the page cache on both sides.
[[nodiscard]] Turn copied_by_dd(const Workload& source, const std::filesystem::path& target);
/// Whether the disk can do that.
[[nodiscard]] bool dd_can_copy(const Workload& source, const std::filesystem::path& target);
/// A plain loop of reads and writes of 1 MiB.
[[nodiscard]] Turn copied_by_loop(const Workload& source, const std::filesystem::path& target);

}  // namespace ht::bench
