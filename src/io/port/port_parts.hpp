// Functions shared by the files of a port, and the port's fault handler.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "io/port/port.hpp"

namespace ht::inline v1::io {

[[nodiscard]] inline tl::unexpected<std::error_code> failed_with(int error_number) {
  return tl::unexpected(std::error_code(error_number, std::generic_category()));
}

/// Creates the system's own read queue. `function_not_supported` if the system has none, or forbids it.
[[nodiscard]] IoResult<std::unique_ptr<ReadQueue>> uring_queue(std::uint32_t depth);

/// Atomically replaces pages. Returns false on failure, with the cause in `errno`. Makes the raw system call:
/// the function runs in a signal handler and while other threads read the pages, and a sanitizer that
/// intercepts `mmap` would report the replacement as a write.
bool map_fixed(std::uintptr_t address, std::uint64_t bytes, int protection, int flags, int file,
               std::int64_t offset) noexcept;

/// The SIGBUS handler, installed while a FaultHandler exists. It passes other faults to the handler that was
/// installed before. The last FaultHandler restores that handler, unless the program has installed another
/// handler meanwhile: the new one may call the handler of the library.
class FaultHandler {
 public:
  /// Throws std::bad_alloc if out of memory, because a mapping without the handler would be unguarded.
  FaultHandler();
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;
  ~FaultHandler();
};

// Memory limits from /proc and the control group.

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

/// Returns the minimum of the free memory of the machine and of all groups of this process.
[[nodiscard]] IoResult<std::uint64_t> available_memory();
/// Returns the peak resident memory of this process.
[[nodiscard]] IoResult<std::uint64_t> peak_memory();

}  // namespace ht::inline v1::io
