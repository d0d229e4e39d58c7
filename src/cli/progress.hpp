// A bar on stderr for work that takes a while.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>

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

/// Long work of the library with a bar, which the user can interrupt.
class WorkWithBar {
 public:
  explicit WorkWithBar(const Common& common) : common_(common) {}
  WorkWithBar(const WorkWithBar&) = delete;
  WorkWithBar& operator=(const WorkWithBar&) = delete;

  /// This has to live as long as they are used.
  [[nodiscard]] WorkOptions options();

 private:
  const Common& common_;
  std::stop_source stop_;
  std::optional<Progress> bar_;
};

}  // namespace ht::cli
