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
  /// Number of rounds (--repeats). A contender that a goal compares runs in every round; others may run in
  /// some rounds only.
  int repeats = 11;
  /// Only cells whose name contains one of these; all if empty.
  std::vector<std::string> cells{};
  /// False for a benchmark without temporary files. It then has no option --folder.
  bool writes_files = true;
  /// For temporary files.
  std::filesystem::path folder{};
  /// The JSON file for the measurements; no file is written if empty.
  std::filesystem::path json{};

  /// Returns true if `cells` is empty or if one of its texts is a substring of the name.
  [[nodiscard]] bool selects(std::string_view cell) const;
};

/// `options` has the defaults. The default of --folder is the temporary folder of the system. Throws if the
/// arguments are invalid.
[[nodiscard]] Options parse_options(int argc, char** argv, Options options);

}  // namespace ht::bench
