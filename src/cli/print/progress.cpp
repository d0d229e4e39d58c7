#include "cli/print/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>

#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

using namespace std::chrono_literals;

bool is_drawn = false;

bool is_enabled(const Common& common) {
  if (common.progress == ProgressBar::always) return true;
  return common.progress == ProgressBar::automatic && !common.quiet && isatty(STDERR_FILENO) != 0;
}

// Unlike print_error, does not erase the bar.
void write_to_stderr(std::string_view text) noexcept {
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

}  // namespace

std::string progress_text(double share, std::uint64_t bytes_per_second, double seconds_left,
                          std::size_t columns) {
  const std::string percent = fmt::format("{:3.0f}%", share * 100);
  const std::string rate = fmt::format("  {}/s", size_text(bytes_per_second));
  const std::string left = fmt::format("  {:.0f} s left", seconds_left);
  constexpr std::size_t max_bar = 30;
  constexpr std::size_t min_bar = 5;
  constexpr std::size_t bar_margin = 3;  // the brackets and a space
  const std::size_t numbers = percent.size() + rate.size() + left.size();
  if (columns >= numbers + bar_margin + min_bar) {
    const std::size_t width = std::min(max_bar, columns - numbers - bar_margin);
    const auto full = std::min(width, static_cast<std::size_t>(share * static_cast<double>(width)));
    return fmt::format("[{:#<{}}{:.<{}}] {}{}{}", "", full, "", width - full, percent, rate, left);
  }
  if (columns >= numbers) return percent + rate + left;
  if (columns >= percent.size() + left.size()) return percent + left;
  return columns >= percent.size() ? percent : std::string();
}

void erase_progress() noexcept {
  if (!is_drawn) return;
  is_drawn = false;
  write_to_stderr("\r\x1b[K");
}

WorkWithBar::WorkWithBar(const Common& common) : common_(common) {
  try {
    watcher_ = std::jthread([work_stop = stop_](const std::stop_token& watcher_stop) mutable {
      std::mutex mutex;
      std::condition_variable_any stopped;
      std::unique_lock lock(mutex);
      while (!stopped.wait_for(lock, watcher_stop, 20ms, [&] { return watcher_stop.stop_requested(); })) {
        if (!is_interrupted()) continue;
        work_stop.request_stop();
        return;
      }
    });
  } catch (const std::system_error&) {
    watcher_ = std::jthread();  // without it, only the progress callback polls for signals
  }
}

WorkWithBar::~WorkWithBar() { erase_progress(); }

void WorkWithBar::update(const Progress& progress) {
  const auto now = Clock::now();
  if (!start_) {
    start_ = now;
    const auto delay = common_.progress == ProgressBar::always ? 0ms : 500ms;
    next_ = is_enabled(common_) ? now + delay : Clock::time_point::max();
  }
  // Do not draw the bar on an incomplete line of output.
  if (now < next_ || is_line_open()) return;
  next_ = now + 100ms;
  const auto done = static_cast<double>(std::min(progress.done_bytes, progress.total_bytes));
  const auto total = static_cast<double>(progress.total_bytes);
  const double seconds = std::max(std::chrono::duration<double>(now - *start_).count(), 1e-9);
  const double rate = static_cast<double>(progress.done_bytes) / seconds;
  const std::size_t columns = terminal_columns(STDERR_FILENO);
  // A terminal moves to the next line when the last column is filled.
  const auto text =
      progress_text(total > 0 ? done / total : 1.0, static_cast<std::uint64_t>(rate),
                    rate > 0 ? (total - done) / rate : 0, (columns == 0 ? default_columns : columns) - 1);
  write_to_stderr(fmt::format("\r{}\x1b[K", text));
  is_drawn = true;
}

WorkOptions WorkWithBar::options() {
  return {.stop = stop_.get_token(), .on_progress = [this](const Progress& progress) {
            update(progress);
            if (is_interrupted()) stop_.request_stop();
          }};
}

}  // namespace ht::cli
