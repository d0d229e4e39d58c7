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

/// Long work of the library with a bar, which the user can interrupt. The bar appears on a terminal once the
/// work has taken half a second. The destructor erases it, and so do `print` and `print_error`, so that it
/// never shares a line with other text. A signal handler cannot request a stop, and work need not report
/// progress to be long: a thread looks for signals as long as this lives.
class WorkWithBar {
 public:
  explicit WorkWithBar(const Common& common);
  WorkWithBar(const WorkWithBar&) = delete;
  WorkWithBar& operator=(const WorkWithBar&) = delete;
  ~WorkWithBar();

  /// Draws the bar, if it is time to.
  void update(const Progress& progress);

  /// This object must outlive their use.
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
