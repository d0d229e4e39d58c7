// A progress bar on stderr for work that takes long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "cli/cli.hpp"

namespace ht::cli {

/// Work options with a progress bar, for work that the user can interrupt. The bar appears on a terminal
/// after half a second. The destructor, `print` and `print_error` erase it, so that it never shares a line
/// with other text. A thread polls for signals as long as this object lives, because a signal handler cannot
/// request a stop and long work need not report progress.
class WorkWithBar {
 public:
  explicit WorkWithBar(const Common& common);
  WorkWithBar(const WorkWithBar&) = delete;
  WorkWithBar& operator=(const WorkWithBar&) = delete;
  ~WorkWithBar();

  /// Draws the bar if it is due.
  void update(const Progress& progress);

  /// The options for the work. This object must outlive their use.
  [[nodiscard]] WorkOptions options();

 private:
  using Clock = std::chrono::steady_clock;
  const Common& common_;
  std::stop_source stop_;
  std::optional<Clock::time_point> start_;  // of the first update
  Clock::time_point next_;                  // when the bar is drawn again
  std::jthread watcher_;
};

/// Erases the bar that is on the terminal, if any; the next update draws it again.
void erase_progress() noexcept;

/// The bar with percentage, rate and time left in at most this many columns; parts that do not fit are left
/// out.
[[nodiscard]] std::string progress_text(double share, std::uint64_t bytes_per_second, double seconds_left,
                                        std::size_t columns);

}  // namespace ht::cli
