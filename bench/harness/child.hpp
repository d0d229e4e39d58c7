// Child processes of the benchmark.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ht::bench {

struct ChildResult {
  /// As waitpid returns it: 0 if the program exited with 0.
  int wait_status = 0;
  /// The output of the program on stdout and stderr.
  std::string captured;
};

/// Runs a program to its end. The first word is searched in PATH.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& command);

/// The same; throws unless the program exits with 0. Returns its output.
std::string run_or_fail(const std::vector<std::string>& command);

/// The command that copies a file with direct reads and writes, and fsyncs the copy.
[[nodiscard]] std::vector<std::string> dd_command(const std::filesystem::path& source,
                                                  const std::filesystem::path& target);

/// A child process that runs until `end` or the destructor.
class RunningChild {
 public:
  explicit RunningChild(const std::vector<std::string>& command);
  RunningChild(const RunningChild&) = delete;
  RunningChild& operator=(const RunningChild&) = delete;
  ~RunningChild() { end(); }

  /// Returns true if the process has exited by itself.
  [[nodiscard]] bool has_ended();
  void end();

 private:
  pid_t child_ = -1;
};

/// The path of this program, to run it again with other arguments.
[[nodiscard]] std::string own_program();
/// A size in the status of this process, such as "VmHWM", its peak memory. In bytes.
[[nodiscard]] std::uint64_t status_bytes(std::string_view field);

}  // namespace ht::bench
