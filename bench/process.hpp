// Runs a program and measures its time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ht::bench {

/// Milliseconds of one run: elapsed time, and CPU time in user and system mode.
struct ProcessCost {
  double wall_ms = 0;
  double processor_ms = 0;
};

/// Runs the command with standard output to a file and waits for it. Throws unless it exits with 0.
ProcessCost run_process(const std::vector<std::string>& command,
                        const std::filesystem::path& output = "/dev/null");

}  // namespace ht::bench
