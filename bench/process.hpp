// Runs another program and measures it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ht::bench {

/// Milliseconds of one run: from the start of the process to its end, and of processor time, user and system.
struct Spent {
  double wall_ms = 0;
  double processor_ms = 0;
};

/// Runs the command to its end with its standard output in a file. nullopt unless it exits with 0.
[[nodiscard]] std::optional<Spent> run_process(const std::vector<std::string>& command,
                                               const std::filesystem::path& output = "/dev/null");

}  // namespace ht::bench
