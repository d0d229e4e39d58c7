// Command-line options of the benchmarks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ht::bench {

struct Options {
  bool smoke = false;
  std::uint64_t bytes = std::uint64_t{4} << 30;
  /// Number of rounds. Each contender of a goal runs in every round.
  int repeats = 11;
  /// Only cells whose name contains one of these; all if empty.
  std::vector<std::string> cells{};
  std::filesystem::path folder = std::filesystem::temp_directory_path();
  /// The file for the figures; no file is written if empty.
  std::filesystem::path json{};

  /// True if `cells` is empty or has a part of this name.
  [[nodiscard]] bool selects(std::string_view cell) const;
};

/// `options` has the defaults. Throws if the arguments are invalid.
[[nodiscard]] Options parse_options(int argc, char** argv, Options options = {});

}  // namespace ht::bench
