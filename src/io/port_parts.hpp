// What the files of a port share, and the handler of faults, which comes with the port.
#pragma once

#include <cstdint>
#include <htensor/io/port.hpp>
#include <memory>
#include <optional>
#include <string_view>

namespace ht::inline v1::io {

[[nodiscard]] inline tl::unexpected<std::error_code> said(int error_number) {
  return tl::unexpected(std::error_code(error_number, std::generic_category()));
}

/// The system's own queue for reads. `function_not_supported` where the system has none, or forbids it.
[[nodiscard]] IoResult<std::unique_ptr<ReadQueue>> uring_queue(std::uint32_t depth);

/// Puts read-only pages over others, in one step. Whether it could be done; `errno` says why not. By the
/// call's number and not by its name: it is made while others read there, which is what it is for, and in a
/// signal handler; a sanitizer that stands behind the name takes it for a write and keeps books of its own.
bool map_fixed(std::uintptr_t address, std::uint64_t bytes, int flags, int file,
               std::int64_t offset) noexcept;

/// The handler of SIGBUS. Installed while one of these lives. Faults that it does not treat go to the handler
/// that was installed before, which is installed again with the last of these; unless the program has
/// installed another one on top meanwhile, which may rely on this one.
class FaultHandler {
 public:
  /// Throws std::bad_alloc: a mapping without the handler would be unguarded.
  FaultHandler();
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;
  ~FaultHandler();
};

// What /proc and the control group say of memory.

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
