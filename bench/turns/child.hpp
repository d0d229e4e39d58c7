// Child processes of the benchmark.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ht::bench {

struct ChildResult {
  int status = 0;
  /// The output of the program on stdout and stderr.
  std::string captured;
};

/// Runs a program to its end. The first word is searched in PATH.
[[nodiscard]] ChildResult run_child(const std::vector<std::string>& command);

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

}  // namespace ht::bench
