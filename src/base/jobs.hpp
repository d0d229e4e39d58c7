// Work in many parts, done by several threads.
#pragma once

#include <cstddef>
#include <functional>
#include <htensor/base/result.hpp>
#include <thread>
#include <vector>

namespace ht::inline v1 {

struct Jobs {
  std::size_t count = 0;
  /// 0 is as many as there are processors.
  std::size_t threads = 0;
  /// Does one job; called with the worker's number, too, which is below `workers_for`.
  std::function<Result<void>(std::size_t job, std::size_t worker)> run;
  /// Called on the caller's thread now and then, and once behind the last job. What it fails with ends all.
  std::function<Result<void>()> meanwhile;
};

/// How many threads there will be.
[[nodiscard]] std::size_t workers_for(const Jobs& jobs) noexcept;

/// Starts threads that run `work(number)` and do not block SIGBUS: `count`, or as many as the system starts.
/// Throws nothing once the first of them runs.
[[nodiscard]] std::vector<std::jthread> start_threads(std::size_t count,
                                                      const std::function<void(std::size_t)>& work);

/// Jobs are begun in order. The first that fails ends the rest, and of several failures that of the lowest
/// number is returned: the same work always has the same result. An exception of `run` or `meanwhile` is a
/// failure that is thrown again here, once all threads have ended.
[[nodiscard]] Result<void> run_all(const Jobs& jobs);

}  // namespace ht::inline v1
