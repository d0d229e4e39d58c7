// Command-line options of the benchmarks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ht::bench {

struct Options {
  /// Checks answers only; a file that cannot be evicted from the page cache is accepted.
  bool smoke = false;
  /// 0 if the benchmark has a fixed size. It then has no option --size.
  std::uint64_t bytes = std::uint64_t{4} << 30;
  /// Number of rounds. Each contender of a goal runs in every round.
  int repeats = 11;
  /// Only cells whose name contains one of these; all if empty.
  std::vector<std::string> cells{};
  /// False for a benchmark without temporary files. It then has no option --folder.
  bool writes_files = true;
  /// For temporary files.
  std::filesystem::path folder{};
  /// The file for the figures; no file is written if empty.
  std::filesystem::path json{};

  /// True if `cells` is empty or has a part of this name.
  [[nodiscard]] bool selects(std::string_view cell) const;
};

/// `options` has the defaults; the default folder is that of the system. Throws if the arguments are invalid.
[[nodiscard]] Options parse_options(int argc, char** argv, Options options);

}  // namespace ht::bench
