// What /proc and the control group say of memory.
#pragma once

#include <cstdint>
#include <htensor/io/port.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1::io {

/// The number behind a word that begins a line, as "MemAvailable:" does in /proc/meminfo.
[[nodiscard]] std::optional<std::uint64_t> number_behind(std::string_view text,
                                                         std::string_view word) noexcept;

/// Where this process is among control groups, from /proc/self/cgroup: of "4:memory:/a/b" the controller
/// "memory" is at "/a/b". The unified tree has no controller's name: "0::/a/b".
[[nodiscard]] std::optional<std::string_view> control_group(std::string_view cgroups,
                                                            std::string_view controller) noexcept;

/// What is left of a group's memory; nothing where it has no limit. What it has in the page cache is counted
/// as used by the system, and given back when it is needed.
[[nodiscard]] std::optional<std::uint64_t> left_of_limit(std::string_view limit, std::string_view used,
                                                         std::uint64_t in_page_cache) noexcept;

/// The least of what the machine and the groups above this process have left.
[[nodiscard]] IoResult<std::uint64_t> available_memory();
/// The most that this process has had.
[[nodiscard]] IoResult<std::uint64_t> peak_memory();

}  // namespace ht::inline v1::io
