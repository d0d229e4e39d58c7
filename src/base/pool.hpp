// The threads behind `Workers`, and the tasks that they join.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace ht::inline v1::detail {

/// One call's work. Threads join it until there are `max_workers` of them or one of them has left, as a
/// thread leaves when there is nothing left to begin.
class PoolTask {
 public:
  explicit PoolTask(std::size_t max_workers) noexcept : max_workers_(max_workers) {}
  PoolTask(const PoolTask&) = delete;
  PoolTask& operator=(const PoolTask&) = delete;

 protected:
  ~PoolTask() = default;
  /// Does work until there is no more to begin. `worker` is below `max_workers`, and no other thread has it.
  virtual void work(std::size_t worker) noexcept = 0;

 private:
  friend class Pool;

  // All under the mutex of the pool; `is_finished_` is read without it by the thread that waits.
  std::size_t max_workers_;
  std::size_t joined_ = 0;
  std::size_t active_ = 0;
  bool is_exhausted_ = false;
  std::atomic<bool> is_finished_ = false;
  std::condition_variable finished_;
  PoolTask* next_ = nullptr;
};

/// A thread waits for a task by spinning for some microseconds, then sleeps: a task that follows soon after
/// another needs no system call.
class Pool {
 public:
  explicit Pool(std::size_t max_threads) noexcept;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Waits for its threads.
  ~Pool();

  /// False in a forked child, which has the memory of the pool but not its threads.
  [[nodiscard]] bool is_of_this_process() const noexcept;

  enum class Caller { joins, joins_if_no_thread_is_idle };

  /// Lets threads of the pool join, and wakes or starts them. Returns the caller's number if it joins, too:
  /// it has to work and to leave then.
  [[nodiscard]] std::optional<std::size_t> offer(PoolTask& task, Caller caller) noexcept;

  /// For threads that are not the pool's: joins if no thread has left, works and leaves.
  void help(PoolTask& task) noexcept;
  /// The same, but joins only if no thread has. Returns the caller's number.
  [[nodiscard]] std::optional<std::size_t> join_first(PoolTask& task) noexcept;
  void leave(PoolTask& task) noexcept;

  /// Whether all threads that joined have left within the time. The task may be destroyed then.
  [[nodiscard]] bool wait_for(PoolTask& task, std::chrono::milliseconds time) noexcept;

 private:
  void serve() noexcept;
  void start_threads(std::size_t count) noexcept;
  std::size_t join_locked(PoolTask& task) noexcept;
  void leave_locked(PoolTask& task) noexcept;
  void withdraw(PoolTask& task) noexcept;

  const std::size_t max_threads_;
  const unsigned generation_;
  std::mutex mutex_;
  std::condition_variable wake_;
  PoolTask* open_ = nullptr;            // tasks that threads may join
  std::atomic<bool> has_open_ = false;  // for threads that spin
  std::size_t spinning_ = 0;
  std::size_t sleeping_ = 0;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

/// How many processors this process may use, at least 1.
[[nodiscard]] std::size_t processors() noexcept;

}  // namespace ht::inline v1::detail
