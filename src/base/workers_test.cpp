#include "base/workers.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "testing/blocked_signal.hpp"

namespace ht::jobs_test {
namespace {

TEST(Jobs, are_each_run_once) {
  for (const std::size_t threads : {1UL, 2UL, 5UL}) {
    std::vector<std::atomic<int>> done(1000);
    const Jobs jobs{.count = done.size(),
                    .threads = threads,
                    .run = [&](std::size_t job, std::size_t worker) -> Result<void> {
                      EXPECT_LT(worker, threads);
                      ++done[job];
                      return {};
                    },
                    .meanwhile = {}};
    ASSERT_TRUE(run_all(jobs));
    for (const auto& each : done) ASSERT_EQ(each, 1);
  }
}

TEST(Jobs, run_with_sigbus_unblocked_if_the_caller_blocks_it) {
  const testing::BlockedSigbus blocked;
  std::atomic<int> blocked_in = 0;
  EXPECT_TRUE(run_all({.count = 10,
                       .threads = 2,
                       .run = [&](std::size_t, std::size_t) -> Result<void> {
                         blocked_in += testing::BlockedSigbus::is_blocked() ? 1 : 0;
                         return {};
                       },
                       .meanwhile = {}}));
  EXPECT_EQ(blocked_in, 0);
  EXPECT_TRUE(testing::BlockedSigbus::is_blocked());
}

TEST(Jobs, an_empty_list_returns_at_once) {
  int polls = 0;
  const Jobs jobs{.count = 0,
                  .threads = 0,
                  .run = [](std::size_t, std::size_t) -> Result<void> { return {}; },
                  .meanwhile = [&]() -> Result<void> {
                    ++polls;
                    return {};
                  }};
  EXPECT_TRUE(run_all(jobs));
  EXPECT_GE(polls, 1);
  EXPECT_EQ(workers_for(jobs), 1U);
}

TEST(Jobs, report_the_error_of_the_lowest_job) {
  for (int round = 0; round < 50; ++round) {
    const Jobs jobs{.count = 200,
                    .threads = 4,
                    .run = [](std::size_t job, std::size_t) -> Result<void> {
                      if (job == 60 || job == 61 || job == 62 || job > 150) {
                        return fail(Error(ErrorCode::read_failed).at_offset(job));
                      }
                      return {};
                    },
                    .meanwhile = {}};
    const auto done = run_all(jobs);
    ASSERT_FALSE(done);
    ASSERT_EQ(done.error().offset(), 60U);
  }
}

TEST(Jobs, end_when_the_caller_requests_a_stop) {
  std::atomic<std::size_t> started = 0;
  std::atomic<bool> is_requested = false;
  const Jobs jobs{.count = 1'000'000,
                  .threads = 2,
                  .run = [&](std::size_t, std::size_t) -> Result<void> {
                    ++started;
                    is_requested.wait(false);  // no job returns before `meanwhile` has run
                    return {};
                  },
                  .meanwhile = [&]() -> Result<void> {
                    is_requested = true;
                    is_requested.notify_all();
                    return fail(Error(ErrorCode::cancelled));
                  }};
  const auto done = run_all(jobs);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  EXPECT_LT(started, jobs.count);
}

TEST(Jobs, failure_of_meanwhile_takes_precedence_over_failures_of_jobs) {
  std::atomic<bool> has_begun = false;
  std::atomic<bool> has_failed = false;
  const Jobs jobs{.count = 1,
                  .threads = 2,
                  .run = [&](std::size_t, std::size_t) -> Result<void> {
                    // Once the last job has failed, `run_all` may return without a call of `meanwhile`.
                    has_begun.wait(false);
                    has_failed = true;
                    has_failed.notify_all();
                    return fail(Error(ErrorCode::read_failed));
                  },
                  .meanwhile = [&]() -> Result<void> {
                    has_begun = true;
                    has_begun.notify_all();
                    has_failed.wait(false);
                    return fail(Error(ErrorCode::cancelled));
                  }};
  const auto done = run_all(jobs);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
}

TEST(Jobs, report_out_of_memory) {
  const Jobs jobs{.count = 3,
                  .threads = 2,
                  .run = [](std::size_t, std::size_t) -> Result<void> { throw std::bad_alloc(); },
                  .meanwhile = {}};
  EXPECT_EQ(run_all(jobs).error().code(), ErrorCode::out_of_memory);
}

TEST(Jobs, rethrow_exceptions_in_the_caller) {
  std::atomic<std::size_t> started = 0;
  Jobs jobs{.count = 100'000,
            .threads = 2,
            .run = [&](std::size_t job, std::size_t) -> Result<void> {
              ++started;
              if (job == 10) throw std::runtime_error("of a job");
              return {};
            },
            .meanwhile = {}};
  EXPECT_THROW(static_cast<void>(run_all(jobs)), std::runtime_error);
  EXPECT_LT(started, jobs.count);
  jobs.run = [](std::size_t job, std::size_t) -> Result<void> {
    if (job == 5) return fail(Error(ErrorCode::read_failed));
    if (job == 6) throw std::runtime_error("of a job after a failure");
    return {};
  };
  EXPECT_EQ(run_all(jobs).error().code(), ErrorCode::read_failed);
}

TEST(Jobs, end_on_an_exception_of_meanwhile) {
  std::atomic<bool> reported = false;
  std::atomic<std::size_t> started = 0;
  const Jobs jobs{.count = 1'000'000'000,
                  .threads = 2,
                  .run = [&](std::size_t, std::size_t) -> Result<void> {
                    ++started;
                    reported.wait(false);
                    return {};
                  },
                  .meanwhile = [&]() -> Result<void> {
                    reported = true;
                    reported.notify_all();
                    throw std::runtime_error("of the caller");
                  }};
  EXPECT_THROW(static_cast<void>(run_all(jobs)), std::runtime_error);
  EXPECT_LT(started, jobs.count);
}

// Returns the sum of all numbers below `count`, computed by jobs.
std::size_t sum_below(std::size_t count, Workers* workers = nullptr, std::size_t threads = 0) {
  std::atomic<std::size_t> sum = 0;
  const Jobs jobs{.count = count,
                  .threads = threads,
                  .run = [&](std::size_t job, std::size_t) -> Result<void> {
                    sum += job;
                    return {};
                  },
                  .meanwhile = {},
                  .workers = workers};
  return run_all(jobs) ? sum.load() : SIZE_MAX;
}

// Runs `body` in a forked child. Returns whether `body` returned true there.
template <class Body>
bool succeeds_in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Jobs, run_on_the_same_threads_every_time) {
  Workers workers(3);
  std::mutex mutex;
  std::set<pid_t> threads;  // kernel thread IDs, which are not reused soon, unlike std::thread::id
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> started = 0;
    const Jobs jobs{.count = 3,
                    .threads = 0,
                    .run = [&](std::size_t, std::size_t) -> Result<void> {
                      {
                        const std::scoped_lock lock(mutex);
                        threads.insert(gettid());
                      }
                      // Each job waits until all jobs have started, so that all threads take part.
                      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
                      for (++started; started < 3 && std::chrono::steady_clock::now() < end;)
                        std::this_thread::yield();
                      return started == 3 ? Result<void>() : fail(Error(ErrorCode::cancelled));
                    },
                    .meanwhile = {},
                    .workers = &workers};
    ASSERT_TRUE(run_all(jobs)) << "three jobs do not run at once";
    ASSERT_TRUE(threads.contains(gettid()));
    ASSERT_EQ(threads.size(), 3U) << "the caller and two threads of the pool";
  }
  EXPECT_EQ(workers.threads(), 3U);
}

TEST(Jobs, run_on_the_callers_thread_if_there_is_one_worker) {
  Workers workers(1);
  const Jobs jobs{.count = 10,
                  .threads = 0,
                  .run = [caller = std::this_thread::get_id()](std::size_t, std::size_t) -> Result<void> {
                    EXPECT_EQ(std::this_thread::get_id(), caller);
                    return {};
                  },
                  .meanwhile = {},
                  .workers = &workers};
  EXPECT_TRUE(run_all(jobs));
}

TEST(Jobs, can_be_nested) {
  for (const std::size_t threads : {1UL, 2UL, 3UL}) {
    Workers workers(threads);
    std::atomic<std::size_t> sum = 0;
    Jobs jobs{.count = 8,
              .threads = 0,
              .run = [&](std::size_t, std::size_t) -> Result<void> {
                std::atomic<std::size_t> inner = 0;
                const Jobs more{.count = 4,
                                .threads = 0,
                                .run = [&](std::size_t, std::size_t) -> Result<void> {
                                  inner += sum_below(10, &workers);
                                  return {};
                                },
                                .meanwhile = [] { return Result<void>(); },
                                .workers = &workers};
                HT_TRY(run_all(more));
                sum += inner;
                return {};
              },
              .meanwhile = {},
              .workers = &workers};
    ASSERT_TRUE(run_all(jobs));
    EXPECT_EQ(sum, 8U * 4 * 45);
    jobs.meanwhile = [] { return Result<void>(); };
    ASSERT_TRUE(run_all(jobs));
    EXPECT_EQ(sum, 2U * 8 * 4 * 45);
  }
}

TEST(Jobs, run_concurrently_for_several_callers) {
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> callers;
    callers.reserve(4);
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&] {
        for (std::size_t round = 0; round < 200; ++round) {
          const std::size_t count = 1 + round % 17;
          wrong += sum_below(count) == count * (count - 1) / 2 ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Jobs, get_more_threads_than_the_pool_has) {
  Workers workers(1);
  std::atomic<std::size_t> started = 0;
  const Jobs jobs{.count = 6,
                  .threads = 6,
                  .run = [&](std::size_t, std::size_t worker) -> Result<void> {
                    EXPECT_LT(worker, 6U);
                    // Each job waits until all jobs have started.
                    for (++started; started < 6;) std::this_thread::yield();
                    return {};
                  },
                  .meanwhile = {},
                  .workers = &workers};
  EXPECT_TRUE(run_all(jobs));
  EXPECT_EQ(started, 6U);
}

TEST(Jobs, failures_do_not_depend_on_the_number_of_threads) {
  for (const std::size_t threads : {1UL, 2UL, 3UL, 8UL}) {
    Workers workers(threads);
    const Jobs jobs{.count = 100,
                    .threads = 0,
                    .run = [](std::size_t job, std::size_t) -> Result<void> {
                      if (job % 7 == 6) return fail(Error(ErrorCode::read_failed).at_offset(job));
                      return {};
                    },
                    .meanwhile = {},
                    .workers = &workers};
    const auto done = run_all(jobs);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().offset(), 6U);
    EXPECT_EQ(sum_below(1000, &workers), 499'500U);
  }
}

// Waits until all other threads sleep. A thread that starts holds the lock of the sanitizer's allocator, and
// a child that is forked at that time can never allocate.
void wait_until_others_sleep() {
  const auto this_thread_id = std::to_string(gettid());
  for (bool all_sleep = false; !all_sleep;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    all_sleep = true;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(task.path() / "stat");
      std::string line;
      std::getline(file, line);
      // The state follows the name, which is in parentheses.
      const auto end = line.rfind(')');
      const bool sleeps = end != std::string::npos && end + 2 < line.size() && line[end + 2] == 'S';
      all_sleep = all_sleep && (sleeps || task.path().filename() == this_thread_id);
    }
  }
}

TEST(Jobs, run_in_a_forked_child) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer ends a forked child that joins a thread with the pthread_t of a thread of "
                  "the parent";
#endif
  Workers workers(2);
  ASSERT_EQ(sum_below(100, &workers), 4950U);
  ASSERT_EQ(sum_below(100), 4950U);
  wait_until_others_sleep();
  EXPECT_TRUE(succeeds_in_child([&] {
    const bool first = sum_below(100, &workers) == 4950 && sum_below(100, nullptr, 5) == 4950;
    wait_until_others_sleep();
    return first && succeeds_in_child([&] { return sum_below(100) == 4950; }) && sum_below(10) == 45;
  }));
  // The parent's threads still work.
  EXPECT_EQ(sum_below(100, &workers), 4950U);
}

TEST(Jobs, run_in_a_child_forked_during_other_jobs) {
  std::atomic<bool> stop = false;
  const std::jthread other([&] {
    while (!stop) EXPECT_EQ(sum_below(50), 1225U);
  });
  for (int round = 0; round < 20; ++round)
    EXPECT_TRUE(succeeds_in_child([] { return sum_below(100) == 4950; }));
  stop = true;
}

TEST(Jobs, run_on_the_callers_thread_if_no_thread_can_be_started) {
  EXPECT_TRUE(succeeds_in_child([] {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) return false;
    // The limit does not apply to the superuser.
    if (::geteuid() == 0 && ::setuid(65534) != 0) return false;
    const auto caller = std::this_thread::get_id();
    bool all_on_caller = true;
    int reports = 0;
    Jobs jobs{.count = 10,
              .threads = 4,
              .run = [&](std::size_t, std::size_t) -> Result<void> {
                all_on_caller = all_on_caller && std::this_thread::get_id() == caller;
                return {};
              },
              .meanwhile = {}};
    const bool done = run_all(jobs).has_value();
    jobs.meanwhile = [&]() -> Result<void> {
      ++reports;
      return {};
    };
    return done && run_all(jobs).has_value() && all_on_caller && reports >= 1;
  }));
}

}  // namespace
}  // namespace ht::jobs_test
