// What can be asked of the benchmark.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ht::bench {

struct Options {
  bool smoke = false;
  std::uint64_t bytes = std::uint64_t{4} << 30;
  /// Rounds: each contender that a goal compares has a turn in every one.
  int repeats = 11;
  /// Only cells whose name contains one of these; all where there are none.
  std::vector<std::string> cells{};
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  /// Nothing is written where there is no name.
  std::filesystem::path json{};
};

/// `options` are what counts where nothing is said. Throws where it cannot be understood.
[[nodiscard]] Options parse_options(int argc, char** argv, Options options = {});

}  // namespace ht::bench
