// One turn of a contender.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ht::bench {

/// What one turn took and came to.
struct Turn {
  double seconds = 0;
  std::uint64_t answer = 0;
  /// What there is to say of it, for instance which strategy was picked.
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
