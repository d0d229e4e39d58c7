// Runs parts of a test in a child process: parts that are killed, or that mount disks or limit the process.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

#include "testing/faulty_port.hpp"

namespace ht::testing {

/// Runs `body` in a child process and returns its result, which is the exit status; -1 if a signal ended the
/// child. Mounts and limits of the child are invisible to other processes and end with it.
[[nodiscard]] int status_in_child(const std::function<int()>& body);

/// Runs `body` in a child process that may be killed; `meanwhile` runs in this process and gets the id of the
/// child. Returns whether the child finished. The test fails if `body` returns false, or if a signal other
/// than SIGKILL ends the child.
[[nodiscard]] bool finishes_in_child(const std::function<bool()>& body,
                                     const std::function<void(pid_t)>& meanwhile = {});

/// Kills the process before its nth call (from 0) of `port` for which `is_counted` returns true.
void kill_before(FaultyPort& port, int nth, bool (*is_counted)(Call) = [](Call) { return true; });

/// Makes later mounts of this process invisible to others. Returns false without the permission to mount.
[[nodiscard]] bool hide_mounts();

/// Mounts a disk in memory that only this process sees; `size` is that of tmpfs, such as "4m". Returns false
/// without the permission to mount.
[[nodiscard]] bool mount_small_disk(const std::filesystem::path& folder, const std::string& size);

}  // namespace ht::testing
