#include "base/jobs.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace ht::inline v1 {
namespace {

// How often the caller looks at how far it has got.
constexpr std::chrono::milliseconds glance{20};

class Crew {
 public:
  explicit Crew(const Jobs& jobs) : jobs_(jobs) {}

  Result<void> run() {
    {
      std::vector<std::jthread> threads;
      hire(threads);
      wait();
    }
    if (failed_) return fail(*std::move(failed_));
    return jobs_.meanwhile ? jobs_.meanwhile() : Result<void>();
  }

 private:
  void hire(std::vector<std::jthread>& threads) {
    const std::size_t wanted = workers_for(jobs_);
    threads.reserve(wanted);
    // A system that gives fewer threads gets the work done by those; without any, it is done here.
    try {
      for (std::size_t i = 0; i < wanted; ++i) {
        {
          const std::scoped_lock lock(mutex_);
          ++working_;
        }
        threads.emplace_back([this, i] { work(i); });
      }
    } catch (const std::system_error&) {
      leave();
    }
    if (threads.empty()) {
      {
        const std::scoped_lock lock(mutex_);
        ++working_;
      }
      work(0);
    }
  }

  void wait() {
    std::unique_lock lock(mutex_);
    while (!idle_.wait_for(lock, glance, [this] { return working_ == 0; })) {
      lock.unlock();
      if (jobs_.meanwhile) {
        // Before all jobs: who says stop is heard first.
        if (auto told = jobs_.meanwhile(); !told) note(0, std::move(told).error());
      }
      lock.lock();
    }
  }

  void work(std::size_t worker) noexcept {
    for (;;) {
      const std::size_t job = next_.fetch_add(1);
      // Those before one that failed are finished, so that the first of all failures is told.
      if (job >= jobs_.count || job > end_.load()) break;
      auto done = without_bad_alloc([&] { return jobs_.run(job, worker); });
      if (!done) note(job + 1, std::move(done).error());
    }
    leave();
  }

  void note(std::size_t rank, Error error) {
    const std::scoped_lock lock(mutex_);
    if (failed_ && rank >= rank_) return;
    failed_ = std::move(error);
    rank_ = rank;
    end_ = rank == 0 ? 0 : rank - 1;
    if (rank == 0) next_ = jobs_.count;
  }

  void leave() noexcept {
    const std::scoped_lock lock(mutex_);
    if (--working_ == 0) idle_.notify_all();
  }

  const Jobs& jobs_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> end_ = SIZE_MAX;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::size_t working_ = 0;
  std::optional<Error> failed_;
  std::size_t rank_ = 0;
};

}  // namespace

std::size_t workers_for(const Jobs& jobs) noexcept {
  const std::size_t most =
      jobs.threads != 0 ? jobs.threads : std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
  return std::min(most, std::max<std::size_t>(jobs.count, 1));
}

Result<void> run_all(const Jobs& jobs) {
  return without_bad_alloc([&] { return Crew(jobs).run(); });
}

}  // namespace ht::inline v1
