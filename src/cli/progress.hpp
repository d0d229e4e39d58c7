// A bar on stderr for work that takes a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <thread>

#include "cli/cli.hpp"

namespace ht::cli {

/// Shows itself on a terminal once the work has taken half a second, and wipes itself when done.
class Progress {
 public:
  Progress(std::uint64_t total_bytes, const Common& common);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  void update(std::uint64_t done_bytes);

 private:
  using Clock = std::chrono::steady_clock;
  std::uint64_t total_;
  bool shown_;          // whether it may be
  bool drawn_ = false;  // whether it is
  Clock::time_point start_ = Clock::now();
  Clock::time_point next_;
};

/// Long work of the library with a bar, which the user can interrupt. A signal handler cannot request a stop,
/// and work need not report progress to be long: a thread looks for signals as long as this lives.
class WorkWithBar {
 public:
  explicit WorkWithBar(const Common& common);
  WorkWithBar(const WorkWithBar&) = delete;
  WorkWithBar& operator=(const WorkWithBar&) = delete;

  /// This has to live as long as they are used.
  [[nodiscard]] WorkOptions options();

 private:
  const Common& common_;
  std::stop_source stop_;
  std::optional<Progress> bar_;
  std::jthread watcher_;
};

}  // namespace ht::cli
