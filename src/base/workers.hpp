// Runs jobs on several threads of a pool.
#pragma once

#include <cstddef>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <thread>
#include <vector>

namespace ht::inline v1 {

struct Jobs {
  std::size_t count = 0;
  /// 0 means as many threads as `workers` has. A number above that starts extra threads for this call only:
  /// for jobs that wait for a disk.
  std::size_t threads = 0;
  /// Runs one job. `worker` is the worker's number, below `workers_for`.
  std::function<Result<void>(std::size_t job, std::size_t worker)> run;
  /// Called on the caller's thread from time to time, and once after the last job. After an error, no
  /// further job starts.
  std::function<Result<void>()> meanwhile;
  /// `Workers::shared()` if null.
  Workers* workers = nullptr;
};

/// Upper bound of the number of threads that run jobs.
[[nodiscard]] std::size_t workers_for(const Jobs& jobs) noexcept;

/// Starts `count` threads, or as many as the system allows. Each thread runs `work(number)` and does not
/// block SIGBUS. Throws std::bad_alloc only before the first thread has started.
[[nodiscard]] std::vector<std::jthread> start_threads(std::size_t count,
                                                      const std::function<void(std::size_t)>& work);

/// Runs all jobs, started in order. After a failure, no later job starts. Of several failed jobs, the failure
/// of the lowest one counts, so the result does not depend on the number of threads. A failure of `meanwhile`
/// takes precedence over those of jobs. If `run` or `meanwhile` throws std::bad_alloc or std::length_error,
/// this counts as the Error `out_of_memory`; any other exception is rethrown here after all jobs have ended.
///
/// The caller's thread runs jobs too. With `meanwhile` it does so only if no thread of the pool is idle;
/// `meanwhile` is then called between jobs. A call costs a few microseconds if all threads are awake.
[[nodiscard]] Result<void> run_all(const Jobs& jobs);

/// Returns the number of forks between the first process and this one: 0, then 1 in a child, 2 in its child.
/// A mutex that was created when the count was lower may be locked by a thread of the parent process.
[[nodiscard]] unsigned fork_count() noexcept;

/// Unblocks SIGBUS on the calling thread while the object exists. For a caller's thread that reads mapped
/// pages in place of a library thread, or that starts threads that read them.
class UnblockedSigbus {
 public:
  UnblockedSigbus() noexcept;
  UnblockedSigbus(const UnblockedSigbus&) = delete;
  UnblockedSigbus& operator=(const UnblockedSigbus&) = delete;
  ~UnblockedSigbus();

 private:
  bool was_blocked_;
};

}  // namespace ht::inline v1
