#include "base/jobs.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>

#include "base/fault_registry.hpp"

namespace ht::inline v1 {
namespace {

// How often the caller looks at how far it has got.
constexpr std::chrono::milliseconds glance{20};

class Workers {
 public:
  explicit Workers(const Jobs& jobs) : jobs_(jobs) {}

  Result<void> run() {
    {
      const std::size_t wanted = workers_for(jobs_);
      working_ = wanted;
      const auto threads = start_threads(wanted, [this](std::size_t worker) { work(worker); });
      // Where the system starts none, the work is done here.
      for (std::size_t i = std::max<std::size_t>(threads.size(), 1); i < wanted; ++i) leave();
      if (threads.empty()) work(0);
      wait();
    }
    if (thrown_) std::rethrow_exception(thrown_);
    if (failed_) return fail(*std::move(failed_));
    return jobs_.meanwhile ? jobs_.meanwhile() : Result<void>();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    while (!idle_.wait_for(lock, glance, [this] { return working_ == 0; })) {
      lock.unlock();
      report();
      lock.lock();
    }
  }

  // A request to stop ranks before all jobs, as does an exception.
  void report() {
    if (!jobs_.meanwhile) return;
    try {
      if (auto reported = jobs_.meanwhile(); !reported) note(0, std::move(reported).error());
    } catch (...) {
      note(0, Error(ErrorCode::cancelled));
      throw;
    }
  }

  void work(std::size_t worker) noexcept {
    for (;;) {
      const std::size_t job = next_.fetch_add(1);
      // Jobs before one that failed are finished, so that the failure of the lowest job is returned.
      if (job >= jobs_.count || job > end_.load()) break;
      try {
        auto done = without_bad_alloc([&] { return jobs_.run(job, worker); });
        if (!done) note(job + 1, std::move(done).error());
      } catch (...) {
        // A caller's callback threw: the exception goes to the caller.
        note(job + 1, Error(ErrorCode::cancelled), std::current_exception());
      }
    }
    leave();
  }

  void note(std::size_t rank, Error error, std::exception_ptr thrown = nullptr) {
    const std::scoped_lock lock(mutex_);
    if (failed_ && rank >= rank_) return;
    failed_ = std::move(error);
    thrown_ = std::move(thrown);
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
  std::exception_ptr thrown_;  // of the job that failed
  std::size_t rank_ = 0;
};

}  // namespace

std::size_t workers_for(const Jobs& jobs) noexcept {
  const std::size_t most =
      jobs.threads != 0 ? jobs.threads : std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
  return std::min(most, std::max<std::size_t>(jobs.count, 1));
}

std::vector<std::jthread> start_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([work, i] {
        fault::unblock_signal();
        work(i);
      });
    }
  } catch (const std::exception&) {
    // The system limit on threads is reached, or memory is exhausted.
    return threads;
  }
  return threads;
}

Result<void> run_all(const Jobs& jobs) {
  return without_bad_alloc([&] { return Workers(jobs).run(); });
}

}  // namespace ht::inline v1
