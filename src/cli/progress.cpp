#include "cli/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

using namespace std::chrono_literals;

bool is_shown(const Common& common) {
  if (common.progress == ProgressBar::always) return true;
  return common.progress == ProgressBar::automatic && !common.quiet && isatty(STDERR_FILENO) != 0;
}

}  // namespace

Progress::Progress(std::uint64_t total_bytes, const Common& common)
    : total_(total_bytes),
      shown_(is_shown(common)),
      next_(start_ + (common.progress == ProgressBar::always ? 0ms : 500ms)) {}

void Progress::update(std::uint64_t done_bytes) {
  const auto now = Clock::now();
  if (!shown_ || now < next_) return;
  next_ = now + 100ms;
  drawn_ = true;
  const double seconds = std::max(std::chrono::duration<double>(now - start_).count(), 1e-9);
  const double rate = static_cast<double>(done_bytes) / seconds;
  const double share =
      total_ == 0 ? 1.0 : std::min(1.0, static_cast<double>(done_bytes) / static_cast<double>(total_));
  const double left = rate > 0 ? static_cast<double>(total_ - std::min(done_bytes, total_)) / rate : 0;
  constexpr int width = 30;
  const int full = static_cast<int>(share * width);
  print_error(fmt::format("\r[{:#<{}}{:.<{}}] {:3.0f}%  {}/s  {:.0f} s left\x1b[K", "", full, "",
                          width - full, share * 100, size_text(static_cast<std::uint64_t>(rate)), left));
}

Progress::~Progress() {
  if (drawn_) print_error("\r\x1b[K");
}

WorkWithBar::WorkWithBar(const Common& common) : common_(common) {
  try {
    watcher_ = std::jthread([stop = stop_](const std::stop_token& over) mutable {
      std::mutex mutex;
      std::condition_variable_any ended;
      std::unique_lock lock(mutex);
      while (!ended.wait_for(lock, over, 20ms, [&] { return over.stop_requested(); })) {
        if (!interrupted()) continue;
        stop.request_stop();
        return;
      }
    });
  } catch (const std::system_error&) {
    // Without a thread, work that reports progress can still be interrupted.
  }
}

WorkOptions WorkWithBar::options() {
  return {.stop = stop_.get_token(), .on_progress = [this](const auto& progress) {
            if (!bar_) bar_.emplace(progress.total_bytes, common_);
            bar_->update(progress.done_bytes);
            if (interrupted()) stop_.request_stop();
          }};
}

}  // namespace ht::cli
