// The result of one timed run of a contender (a turn), and a stopwatch.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ht::bench {

struct TurnResult {
  double seconds = 0;
  std::uint64_t answer = 0;
  /// A remark for the report, for example the selected strategy.
  std::string note{};
};

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace ht::bench
