// Memory limits from /proc and the control group.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "io/port/port.hpp"

namespace ht::inline v1::io {

/// Returns the number after a word at the beginning of a line, such as "MemAvailable:" in /proc/meminfo.
[[nodiscard]] std::optional<std::uint64_t> number_after(std::string_view text,
                                                        std::string_view word) noexcept;

/// Returns the control group of this process from /proc/self/cgroup: "/a/b" for the controller "memory" in
/// "4:memory:/a/b". The unified tree has an empty controller name: "0::/a/b".
[[nodiscard]] std::optional<std::string_view> control_group(std::string_view cgroups,
                                                            std::string_view controller) noexcept;

/// Returns the free memory of a group; nullopt if it has no limit. Page cache counts as free: the system
/// includes it in `used`, but reclaims it when needed.
[[nodiscard]] std::optional<std::uint64_t> available_below_limit(std::string_view limit,
                                                                 std::string_view used,
                                                                 std::uint64_t in_page_cache) noexcept;

/// Returns the minimum of the free memory of a process's groups, from its own up to the root; nullopt if no
/// group has a limit. `cgroups` is the text of /proc/self/cgroup, `folder` is the root folder of
/// all groups (/sys/fs/cgroup).
[[nodiscard]] std::optional<std::uint64_t> available_in_groups(std::string_view cgroups,
                                                               const std::filesystem::path& folder);

/// Returns the minimum of the free memory of the machine and of all groups of this process.
[[nodiscard]] IoResult<std::uint64_t> available_memory();
/// Returns the peak resident memory of this process.
[[nodiscard]] IoResult<std::uint64_t> peak_memory();

}  // namespace ht::inline v1::io
