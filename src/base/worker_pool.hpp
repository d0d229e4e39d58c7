// The threads of `Workers` and the tasks that they join. Included only by workers.cpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "base/fault_registry.hpp"

namespace ht::inline v1::detail {

/// Number of forks between the first process and this one (see `fork_count`).
inline constinit std::atomic<unsigned> forks = 0;

/// Number of processors that this process could use at the first call, at least 1. The number never changes,
/// because callers size buffers by it.
[[nodiscard]] inline std::size_t processors() noexcept {
  static constinit std::atomic<std::size_t> found = 0;
  std::size_t count = found.load(std::memory_order_relaxed);
  if (count == 0) {
    count = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
#if defined(__linux__)
    // taskset and containers may restrict the process to fewer processors.
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
      count = std::clamp<std::size_t>(static_cast<std::size_t>(CPU_COUNT(&allowed)), 1, count);
#endif
    found.store(count, std::memory_order_relaxed);
  }
  return count;
}

/// Spins until the condition holds, for at most 100 us: longer than the time between two tasks of a loop, and
/// a few times the cost of sleeping and waking.
template <class Condition>
void spin_until(Condition holds) noexcept {
  // With one processor, the thread that would change the condition cannot run while this thread spins.
  if (processors() == 1 || holds()) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
  do {
    for (int i = 0; i < 32; ++i) {
      if (holds()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
}

/// Locks the mutex. Nearly all of its critical sections only change a few numbers, so spinning is cheaper
/// than a system call. The exception is `Pool::offer`, which may start threads in its critical section.
[[nodiscard]] inline std::unique_lock<std::mutex> spin_then_lock(std::mutex& mutex) noexcept {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) spin_until([&] { return lock.try_lock(); });
  if (!lock) lock.lock();
  return lock;
}

/// The work of one call of `run_all`. Threads join until `max_workers` have joined or one has left; a thread
/// leaves when no job is left to start.
class PoolTask {
 public:
  explicit PoolTask(std::size_t max_workers) noexcept : max_workers_(max_workers) {}
  PoolTask(const PoolTask&) = delete;
  PoolTask& operator=(const PoolTask&) = delete;

 protected:
  ~PoolTask() = default;
  /// Runs jobs until all have started. `worker` is below `max_workers` and unique among the threads.
  virtual void work(std::size_t worker) noexcept = 0;

 private:
  friend class Pool;

  // Guarded by the pool's mutex, except that the waiting thread reads `is_finished_` without it.
  std::size_t max_workers_;
  std::size_t joined_ = 0;
  std::size_t active_ = 0;
  bool is_exhausted_ = false;
  std::atomic<bool> is_finished_ = false;
  std::condition_variable finished_;
  PoolTask* next_ = nullptr;
};

/// Threads that join open tasks. Idle threads spin before they sleep, so a task that follows soon after
/// another needs no system call.
class Pool {
 public:
  explicit Pool(std::size_t max_threads) noexcept;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Joins its threads.
  ~Pool();

  /// False in a forked child, which has the memory of the pool but not its threads.
  [[nodiscard]] bool belongs_to_this_process() const noexcept;

  enum class Caller { joins, joins_if_no_thread_is_idle };

  /// Opens the task to the pool's threads, and wakes or starts them. Returns the caller's worker number if
  /// the caller joins too; the caller must then call `work` and `leave`.
  [[nodiscard]] std::optional<std::size_t> offer(PoolTask& task, Caller caller) noexcept;

  /// For threads outside of the pool: joins, works and leaves, unless a thread has left already or
  /// `max_workers` have joined.
  void help(PoolTask& task) noexcept;
  /// Joins only if no thread has joined. Returns the caller's worker number; nullopt if it did not join.
  [[nodiscard]] std::optional<std::size_t> join_first(PoolTask& task) noexcept;
  /// Ends the caller's part in the task, and closes the task to other threads.
  void leave(PoolTask& task) noexcept;

  /// Waits for at most `time`. Returns whether all threads that joined have left; the task may be destroyed
  /// then. `spins`: whether the caller spins before it sleeps. Pass true only if the caller was one of the
  /// workers: it then spins on the processor on which it ran jobs. Any other caller would take the processor
  /// of a worker.
  [[nodiscard]] bool wait_for(PoolTask& task, std::chrono::milliseconds time, bool spins) noexcept;

 private:
  /// The loop of a pool thread.
  void serve() noexcept;
  void start_threads(std::size_t count) noexcept;
  std::size_t join_locked(PoolTask& task) noexcept;
  void leave_locked(PoolTask& task) noexcept;
  /// Closes the task. No effect if the task is not open.
  void withdraw(PoolTask& task) noexcept;

  const std::size_t max_threads_;
  const unsigned forks_at_creation_;
  std::mutex mutex_;
  std::condition_variable wake_;
  PoolTask* open_ = nullptr;            // tasks that threads may join
  std::atomic<bool> has_open_ = false;  // for threads that spin
  std::size_t spinning_ = 0;
  std::size_t sleeping_ = 0;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

inline Pool::Pool(std::size_t max_threads) noexcept
    : max_threads_(max_threads), forks_at_creation_(forks.load()) {}

inline Pool::~Pool() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
    has_open_ = true;  // ends spinning
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

inline bool Pool::belongs_to_this_process() const noexcept { return forks_at_creation_ == forks.load(); }

inline std::optional<std::size_t> Pool::offer(PoolTask& task, Caller caller) noexcept {
  std::optional<std::size_t> number;
  std::size_t to_wake = 0;
  {
    const auto lock = spin_then_lock(mutex_);
    if (caller == Caller::joins) number = join_locked(task);
    const std::size_t needed = std::min(task.max_workers_ - task.joined_, max_threads_);
    const std::size_t idle = spinning_ + sleeping_;
    if (idle < needed) start_threads(std::min(needed - idle, max_threads_ - threads_.size()));
    if (caller == Caller::joins_if_no_thread_is_idle && spinning_ + sleeping_ == 0)
      number = join_locked(task);
    // Threads outside of the pool that call `help` may have run all jobs already.
    if (task.is_exhausted_ || task.joined_ == task.max_workers_) return number;
    task.next_ = open_;
    open_ = &task;
    has_open_.store(true, std::memory_order_relaxed);
    // Spinning threads look for tasks once more before they sleep, so only sleeping threads are woken.
    if (needed > spinning_) to_wake = std::min(needed - spinning_, sleeping_);
  }
  for (; to_wake > 0; --to_wake) wake_.notify_one();
  return number;
}

inline void Pool::help(PoolTask& task) noexcept {
  std::optional<std::size_t> number;
  {
    const auto lock = spin_then_lock(mutex_);
    if (task.is_exhausted_ || task.joined_ == task.max_workers_) return;
    number = join_locked(task);
  }
  task.work(*number);
  leave(task);
}

inline std::optional<std::size_t> Pool::join_first(PoolTask& task) noexcept {
  const auto lock = spin_then_lock(mutex_);
  if (task.joined_ != 0) return std::nullopt;
  return join_locked(task);
}

inline void Pool::leave(PoolTask& task) noexcept {
  const auto lock = spin_then_lock(mutex_);
  leave_locked(task);
}

inline bool Pool::wait_for(PoolTask& task, std::chrono::milliseconds time, bool spins) noexcept {
  const auto is_finished = [&] { return task.is_finished_.load(std::memory_order_relaxed); };
  if (spins) spin_until(is_finished);
  // Lock even if the flag is set: the thread that set it may still hold the mutex.
  auto lock = spin_then_lock(mutex_);
  return task.finished_.wait_for(lock, time, is_finished);
}

inline void Pool::serve() noexcept {
  fault::unblock_signal();
  auto lock = spin_then_lock(mutex_);
  while (true) {
    if (open_ == nullptr && !is_stopping_) {
      lock.unlock();
      spin_until([this] { return has_open_.load(std::memory_order_relaxed); });
      lock = spin_then_lock(mutex_);
    }
    if (open_ == nullptr && !is_stopping_) {
      --spinning_;
      ++sleeping_;
      wake_.wait(lock, [this] { return open_ != nullptr || is_stopping_; });
      --sleeping_;
      ++spinning_;
    }
    if (is_stopping_) return;
    PoolTask& task = *open_;
    const std::size_t number = join_locked(task);
    --spinning_;
    lock.unlock();
    task.work(number);
    lock = spin_then_lock(mutex_);
    ++spinning_;
    leave_locked(task);
  }
}

inline void Pool::start_threads(std::size_t count) noexcept {
  try {
    for (; count > 0; --count) {
      threads_.emplace_back([this] { serve(); });
      ++spinning_;
    }
  } catch (const std::exception&) {
    // The system limit on threads is reached, or memory is exhausted: the next task tries again.
    return;
  }
}

inline std::size_t Pool::join_locked(PoolTask& task) noexcept {
  ++task.active_;
  const std::size_t number = task.joined_++;
  if (task.joined_ == task.max_workers_) withdraw(task);
  return number;
}

inline void Pool::leave_locked(PoolTask& task) noexcept {
  if (!task.is_exhausted_) {
    task.is_exhausted_ = true;
    withdraw(task);
  }
  if (--task.active_ > 0) return;
  task.is_finished_.store(true, std::memory_order_relaxed);
  task.finished_.notify_all();
}

inline void Pool::withdraw(PoolTask& task) noexcept {
  for (PoolTask** at = &open_; *at != nullptr; at = &(*at)->next_) {
    if (*at != &task) continue;
    *at = task.next_;
    break;
  }
  has_open_.store(open_ != nullptr, std::memory_order_relaxed);
}

}  // namespace ht::inline v1::detail
