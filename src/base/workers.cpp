#include "base/workers.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <exception>
#include <mutex>
#include <new>
#include <optional>

#include "base/fault_registry.hpp"
#include "base/worker_pool.hpp"

namespace ht::inline v1 {
namespace {

// Registered during static initialization: another thread might fork before a later registration.
[[maybe_unused]] const int atfork_result = ::pthread_atfork(nullptr, nullptr, [] { ++detail::forks; });

// Interval between calls of `meanwhile`.
constexpr std::chrono::milliseconds report_interval{20};

Workers& workers_of(const Jobs& jobs) noexcept {
  return jobs.workers != nullptr ? *jobs.workers : Workers::shared();
}

// One call of `run_all`: hands out the jobs in order and keeps the error to return.
class Run final : public detail::PoolTask {
 public:
  Run(const Jobs& jobs, std::size_t max_workers) : PoolTask(max_workers), jobs_(jobs) {}

  Result<void> run(std::size_t max_workers) {
    detail::Pool* const pool = max_workers > 1 || jobs_.meanwhile ? workers_of(jobs_).pool() : nullptr;
    if (pool != nullptr) {
      run_on(*pool, max_workers);
    } else {
      work_as_caller(0);
    }
    if (thrown_) std::rethrow_exception(thrown_);
    if (failed_) return fail(*std::move(failed_));
    return jobs_.meanwhile ? jobs_.meanwhile() : Result<void>();
  }

 private:
  void run_on(detail::Pool& pool, std::size_t max_workers) noexcept {
    const std::size_t callers = jobs_.meanwhile ? 0 : 1;
    const std::size_t pool_threads = workers_of(jobs_).threads();
    const auto extra_threads = max_workers - callers > pool_threads
                                   ? start_extra_threads(pool, max_workers - callers - pool_threads)
                                   : std::vector<std::jthread>();
    // With `meanwhile`, the caller's thread runs jobs only if no thread of the pool is idle.
    using Caller = detail::Pool::Caller;
    auto number = pool.offer(*this, jobs_.meanwhile ? Caller::joins_if_no_thread_is_idle : Caller::joins);
    while (true) {
      if (number) {
        work_as_caller(*number);
        pool.leave(*this);
      }
      if (pool.wait_for(*this, report_interval, number.has_value())) return;
      report();
      // Threads that were idle at `offer` may have joined other tasks since.
      number = pool.join_first(*this);
    }
  }

  std::vector<std::jthread> start_extra_threads(detail::Pool& pool, std::size_t count) noexcept {
    try {
      return start_threads(count, [this, &pool](std::size_t) { pool.help(*this); });
    } catch (const std::exception&) {
      return {};  // out of memory: the pool's threads do the work
    }
  }

  void work(std::size_t worker) noexcept override {
    while (run_next(worker)) {
    }
  }

  void work_as_caller(std::size_t worker) noexcept {
    const UnblockedSigbus unblocked;
    auto reported = std::chrono::steady_clock::now();
    while (run_next(worker)) {
      if (!jobs_.meanwhile) continue;
      const auto now = std::chrono::steady_clock::now();
      if (now - reported < report_interval) continue;
      reported = now;
      report();
    }
  }

  // Returns false if no further job starts: all jobs have started, or a job or `meanwhile` has failed.
  bool run_next(std::size_t worker) noexcept {
    const std::size_t job = next_.fetch_add(1);
    // Jobs with lower numbers than a failed job still run, so that the failure of the lowest job is returned.
    if (job >= jobs_.count || job > last_job_.load()) return false;
    try {
      auto done = without_bad_alloc([&] { return jobs_.run(job, worker); });
      if (!done) record_failure(job + 1, std::move(done).error());
    } catch (...) {
      // A callback threw: the exception is rethrown to the caller.
      record_failure(job + 1, Error(ErrorCode::cancelled), std::current_exception());
    }
    return true;
  }

  // A failure or an exception of `meanwhile` takes precedence over failures of jobs.
  void report() noexcept {
    if (!jobs_.meanwhile || is_stopped_) return;
    try {
      auto reported = jobs_.meanwhile();
      is_stopped_ = !reported;
      if (!reported) record_failure(0, std::move(reported).error());
    } catch (...) {
      is_stopped_ = true;
      record_failure(0, Error(ErrorCode::cancelled), std::current_exception());
    }
  }

  // Keeps the error or exception of the lowest rank: 0 for `meanwhile`, job + 1 for a job. Jobs above that
  // rank do not start.
  void record_failure(std::size_t rank, Error error, std::exception_ptr thrown = nullptr) {
    const std::scoped_lock lock(mutex_);
    if (failed_ && rank >= rank_) return;
    failed_ = std::move(error);
    thrown_ = std::move(thrown);
    rank_ = rank;
    last_job_ = rank == 0 ? 0 : rank - 1;
    if (rank == 0) next_ = jobs_.count;
  }

  const Jobs& jobs_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<std::size_t> last_job_ = SIZE_MAX;
  bool is_stopped_ = false;  // by `meanwhile`; only the caller's thread uses it
  std::mutex mutex_;
  std::optional<Error> failed_;
  std::exception_ptr thrown_;  // of the failed job or of `meanwhile`; null if it returned an Error
  std::size_t rank_ = 0;
};

}  // namespace

std::size_t workers_for(const Jobs& jobs) noexcept {
  const std::size_t threads = jobs.threads != 0 ? jobs.threads : workers_of(jobs).threads();
  return std::min(threads, std::max<std::size_t>(jobs.count, 1));
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
  const std::size_t max_workers = workers_for(jobs);
  return without_bad_alloc([&] { return Run(jobs, max_workers).run(max_workers); });
}

Workers::~Workers() {
  detail::Pool* const pool = pool_.load();
  // In a forked child the pool of the parent has no threads to join, and its mutex may be locked forever.
  if (pool != nullptr && pool->belongs_to_this_process()) delete pool;
}

std::size_t Workers::threads() const noexcept { return threads_ != 0 ? threads_ : detail::processors(); }

Workers& Workers::shared() noexcept {
  // Never destroyed: threads may still work when the process exits.
  union NeverDestroyed {
    constexpr NeverDestroyed() noexcept : workers() {}
    ~NeverDestroyed() {}
    Workers workers;
  };
  static constinit NeverDestroyed shared;
  return shared.workers;
}

// Lock-free: a mutex might be locked forever in a forked child.
detail::Pool* Workers::pool() noexcept {
  detail::Pool* pool = pool_.load(std::memory_order_acquire);
  if (pool != nullptr && pool->belongs_to_this_process()) return pool;
  auto* const fresh = new (std::nothrow) detail::Pool(threads());
  if (fresh == nullptr) return nullptr;
  if (pool_.compare_exchange_strong(pool, fresh)) return fresh;
  delete fresh;
  return pool;
}

unsigned fork_count() noexcept { return detail::forks.load(std::memory_order_relaxed); }

UnblockedSigbus::UnblockedSigbus() noexcept : was_blocked_(fault::unblock_signal()) {}

UnblockedSigbus::~UnblockedSigbus() {
#ifdef SIGBUS
  if (!was_blocked_) return;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGBUS);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
#endif
}

}  // namespace ht::inline v1
