// What can be asked of the benchmark.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ht::bench {

struct Options {
  bool smoke = false;
  std::uint64_t bytes = std::uint64_t{4} << 30;
  int repeats = 5;
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  /// Nothing is written where there is no name.
  std::filesystem::path json{};
};

/// `options` are what counts where nothing is said. Throws where it cannot be understood.
[[nodiscard]] Options parse_options(int argc, char** argv, Options options = {});

}  // namespace ht::bench
