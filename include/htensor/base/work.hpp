// Progress and cancellation of long operations.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>

namespace ht::inline v1 {

/// The progress of a long operation.
struct Progress {
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::chrono::nanoseconds elapsed{};
};

/// Long operations check these after every piece of work.
struct WorkOptions {
  /// A stop request ends the operation with `cancelled`.
  std::stop_token stop{};
  /// Called on the thread that runs the operation, and once more at the end.
  std::function<void(const Progress&)> on_progress{};
};

}  // namespace ht::inline v1
