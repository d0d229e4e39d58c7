#include "base/pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <htensor/base/workers.hpp>
#include <new>

#include "base/fault_registry.hpp"

namespace ht::inline v1 {
namespace detail {
namespace {

// Counts the forks between the first process and this one.
constinit std::atomic<unsigned> generation = 0;

// Registered before any thread exists: registered later, a fork on another thread might come in between.
[[maybe_unused]] const int is_registered = ::pthread_atfork(nullptr, nullptr, [] { ++generation; });

// Returns early once the condition holds. 20 to 50 us: longer than the time between two tasks of a loop, and
// about what sleeping and waking costs.
template <class Condition>
void spin_until(Condition holds) noexcept {
  // Where there is one processor, the thread that would change the condition cannot run meanwhile.
  const int spins = processors() > 1 ? 1000 : 0;
  for (int i = 0; i < spins && !holds(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
}

}  // namespace

std::size_t processors() noexcept {
  static constinit std::atomic<std::size_t> found = 0;
  std::size_t count = found.load(std::memory_order_relaxed);
  if (count == 0) {
    count = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
    found.store(count, std::memory_order_relaxed);
  }
  return count;
}

Pool::Pool(std::size_t max_threads) noexcept : max_threads_(max_threads), generation_(generation.load()) {}

Pool::~Pool() {
  {
    const std::scoped_lock lock(mutex_);
    is_stopping_ = true;
    has_open_ = true;  // ends spinning
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

bool Pool::is_of_this_process() const noexcept { return generation_ == generation.load(); }

std::optional<std::size_t> Pool::offer(PoolTask& task, Caller caller) noexcept {
  std::optional<std::size_t> number;
  std::size_t to_wake = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (caller == Caller::joins) number = join_locked(task);
    const std::size_t wanted = std::min(task.max_workers_ - task.joined_, max_threads_);
    const std::size_t idle = spinning_ + sleeping_;
    if (idle < wanted) start_threads(std::min(wanted - idle, max_threads_ - threads_.size()));
    if (caller == Caller::joins_if_no_thread_is_idle && spinning_ + sleeping_ == 0)
      number = join_locked(task);
    // Threads of the caller's own may have done all work already.
    if (task.is_exhausted_ || task.joined_ == task.max_workers_) return number;
    task.next_ = open_;
    open_ = &task;
    has_open_.store(true, std::memory_order_relaxed);
    // A thread that spins looks for tasks once more before it sleeps.
    if (wanted > spinning_) to_wake = std::min(wanted - spinning_, sleeping_);
  }
  for (; to_wake > 0; --to_wake) wake_.notify_one();
  return number;
}

void Pool::help(PoolTask& task) noexcept {
  std::optional<std::size_t> number;
  {
    const std::scoped_lock lock(mutex_);
    if (task.is_exhausted_ || task.joined_ == task.max_workers_) return;
    number = join_locked(task);
  }
  task.work(*number);
  leave(task);
}

std::optional<std::size_t> Pool::join_first(PoolTask& task) noexcept {
  const std::scoped_lock lock(mutex_);
  if (task.joined_ != 0) return std::nullopt;
  return join_locked(task);
}

void Pool::leave(PoolTask& task) noexcept {
  const std::scoped_lock lock(mutex_);
  leave_locked(task);
}

bool Pool::wait_for(PoolTask& task, std::chrono::milliseconds time) noexcept {
  const auto is_finished = [&] { return task.is_finished_.load(std::memory_order_relaxed); };
  spin_until(is_finished);
  // Also after the flag was seen: the thread that has set it may hold the mutex still.
  std::unique_lock lock(mutex_);
  return task.finished_.wait_for(lock, time, is_finished);
}

void Pool::serve() noexcept {
  fault::unblock_signal();
  std::unique_lock lock(mutex_);
  while (true) {
    if (open_ == nullptr && !is_stopping_) {
      lock.unlock();
      spin_until([this] { return has_open_.load(std::memory_order_relaxed); });
      lock.lock();
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
    lock.lock();
    ++spinning_;
    leave_locked(task);
  }
}

void Pool::start_threads(std::size_t count) noexcept {
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

std::size_t Pool::join_locked(PoolTask& task) noexcept {
  ++task.active_;
  const std::size_t number = task.joined_++;
  if (task.joined_ == task.max_workers_) withdraw(task);
  return number;
}

void Pool::leave_locked(PoolTask& task) noexcept {
  if (!task.is_exhausted_) {
    task.is_exhausted_ = true;
    withdraw(task);
  }
  if (--task.active_ > 0) return;
  task.is_finished_.store(true, std::memory_order_relaxed);
  task.finished_.notify_all();
}

// Does nothing if the task is not open.
void Pool::withdraw(PoolTask& task) noexcept {
  for (PoolTask** at = &open_; *at != nullptr; at = &(*at)->next_) {
    if (*at != &task) continue;
    *at = task.next_;
    break;
  }
  has_open_.store(open_ != nullptr, std::memory_order_relaxed);
}

}  // namespace detail

Workers::~Workers() {
  detail::Pool* const pool = pool_.load();
  // What a parent has left behind has no threads to wait for, and its mutex may be locked for ever.
  if (pool != nullptr && pool->is_of_this_process()) delete pool;
}

std::size_t Workers::threads() const noexcept { return threads_ != 0 ? threads_ : detail::processors(); }

Workers& Workers::shared() noexcept {
  // Never destroyed: threads may still work when the process exits.
  union Kept {
    constexpr Kept() noexcept : workers() {}
    ~Kept() {}
    Workers workers;
  };
  static constinit Kept kept;
  return kept.workers;
}

// Without a lock, which might be held for ever in a forked child.
detail::Pool* Workers::pool() noexcept {
  detail::Pool* pool = pool_.load(std::memory_order_acquire);
  if (pool != nullptr && pool->is_of_this_process()) return pool;
  auto* const fresh = new (std::nothrow) detail::Pool(threads());
  if (fresh == nullptr) return nullptr;
  if (pool_.compare_exchange_strong(pool, fresh)) return fresh;
  delete fresh;
  return pool;
}

}  // namespace ht::inline v1
