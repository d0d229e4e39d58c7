// Long work: how far it has got, and how to stop it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>

namespace ht::inline v1 {

/// How far long work has got.
struct Progress {
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::chrono::nanoseconds elapsed{};
};

/// What long work looks at after every piece.
struct WorkOptions {
  /// Then it ends with `cancelled`.
  std::stop_token stop{};
  /// Called on the thread that works; once more when all is done.
  std::function<void(const Progress&)> on_progress{};
};

}  // namespace ht::inline v1
