// What can be asked of the benchmark.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace ht::bench {

struct Options {
  bool smoke = false;
  std::uint64_t bytes = std::uint64_t{4} << 30;
  int repeats = 5;
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  /// Nothing is written where there is no name.
  std::filesystem::path json{};
};

/// Throws where it cannot be understood.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace ht::bench
