// Work in many parts, done by several threads of a pool.
#pragma once

#include <cstddef>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/base/workers.hpp>
#include <thread>
#include <vector>

namespace ht::inline v1 {

struct Jobs {
  std::size_t count = 0;
  /// 0 is the number of threads of `workers`. A larger number starts threads for this call alone, for jobs
  /// that wait for a disk.
  std::size_t threads = 0;
  /// Does one job; called with the worker's number, too, which is below `workers_for`.
  std::function<Result<void>(std::size_t job, std::size_t worker)> run;
  /// Called on the caller's thread now and then, and once behind the last job. What it fails with ends all.
  std::function<Result<void>()> meanwhile;
  /// Null is `Workers::shared()`.
  Workers* workers = nullptr;
};

/// Upper bound of the number of threads that run jobs.
[[nodiscard]] std::size_t workers_for(const Jobs& jobs) noexcept;

/// Starts threads that run `work(number)` and do not block SIGBUS: `count`, or as many as the system starts.
/// Throws nothing once the first of them runs.
[[nodiscard]] std::vector<std::jthread> start_threads(std::size_t count,
                                                      const std::function<void(std::size_t)>& work);

/// Jobs are begun in order. The first that fails ends the rest, and of several failures that of the lowest
/// number is returned: the same work always has the same result. An exception of `run` or `meanwhile` is a
/// failure that is thrown again here, once all jobs have ended.
///
/// The caller's thread runs jobs too. With `meanwhile` it does so only where no thread of the pool is free;
/// `meanwhile` is then called between jobs. A call of which all threads are awake takes some microseconds.
[[nodiscard]] Result<void> run_all(const Jobs& jobs);

/// Unblocks SIGBUS on the calling thread while it lives, for a caller's thread that reads mapped pages in the
/// place of a thread of the library, or that starts threads which do.
class UnblockedSigbus {
 public:
  UnblockedSigbus() noexcept;
  UnblockedSigbus(const UnblockedSigbus&) = delete;
  UnblockedSigbus& operator=(const UnblockedSigbus&) = delete;
  ~UnblockedSigbus();

 private:
  bool was_blocked_ = false;
};

}  // namespace ht::inline v1
