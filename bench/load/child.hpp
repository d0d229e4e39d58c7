// Programs that run beside the benchmark.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ht::bench {

struct Ended {
  int status = 0;
  /// What it printed, on either stream.
  std::string said;
};

/// Runs a program to its end. The first word is looked for in PATH.
[[nodiscard]] Ended run_child(const std::vector<std::string>& command);

/// One that goes on until it is told to end, at the latest when this object goes.
class RunningChild {
 public:
  explicit RunningChild(const std::vector<std::string>& command);
  RunningChild(const RunningChild&) = delete;
  RunningChild& operator=(const RunningChild&) = delete;
  ~RunningChild() { end(); }

  /// Whether it has ended by itself.
  [[nodiscard]] bool has_ended();
  void end();

 private:
  pid_t child_ = -1;
};

/// This program's own file, to be run once more with other arguments.
[[nodiscard]] std::string own_program();

}  // namespace ht::bench
