#include "base/jobs.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

#include "testing/blocked_signal.hpp"

namespace ht {
namespace {

TEST(Jobs, are_all_done_once) {
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

TEST(Jobs, meet_faults_whatever_the_caller_blocks) {
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

TEST(Jobs, of_none_are_done_at_once) {
  int asked = 0;
  const Jobs jobs{.count = 0,
                  .threads = 0,
                  .run = [](std::size_t, std::size_t) -> Result<void> { return {}; },
                  .meanwhile = [&]() -> Result<void> {
                    ++asked;
                    return {};
                  }};
  EXPECT_TRUE(run_all(jobs));
  EXPECT_GE(asked, 1);
  EXPECT_EQ(workers_for(jobs), 1U);
}

TEST(Jobs, tell_the_failure_of_the_lowest_number) {
  for (int again = 0; again < 50; ++again) {
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

TEST(Jobs, end_when_the_caller_says_so) {
  std::atomic<std::size_t> begun = 0;
  std::atomic<bool> told = false;
  const Jobs jobs{.count = 1'000'000,
                  .threads = 2,
                  .run = [&](std::size_t, std::size_t) -> Result<void> {
                    ++begun;
                    told.wait(false);  // nobody gets on before the caller has said it
                    return {};
                  },
                  .meanwhile = [&]() -> Result<void> {
                    told = true;
                    told.notify_all();
                    return fail(Error(ErrorCode::cancelled));
                  }};
  const auto done = run_all(jobs);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  EXPECT_LT(begun, jobs.count);
}

TEST(Jobs, that_find_no_memory_say_so) {
  const Jobs jobs{.count = 3,
                  .threads = 2,
                  .run = [](std::size_t, std::size_t) -> Result<void> { throw std::bad_alloc(); },
                  .meanwhile = {}};
  EXPECT_EQ(run_all(jobs).error().code(), ErrorCode::out_of_memory);
}

TEST(Jobs, exceptions_go_to_the_caller) {
  std::atomic<std::size_t> begun = 0;
  Jobs jobs{.count = 100'000,
            .threads = 2,
            .run = [&](std::size_t job, std::size_t) -> Result<void> {
              ++begun;
              if (job == 10) throw std::runtime_error("of a job");
              return {};
            },
            .meanwhile = {}};
  EXPECT_THROW(static_cast<void>(run_all(jobs)), std::runtime_error);
  EXPECT_LT(begun, jobs.count);
  jobs.run = [](std::size_t job, std::size_t) -> Result<void> {
    if (job == 5) return fail(Error(ErrorCode::read_failed));
    if (job == 6) throw std::runtime_error("of a job behind a failure");
    return {};
  };
  EXPECT_EQ(run_all(jobs).error().code(), ErrorCode::read_failed);
}

TEST(Jobs, exception_of_the_caller_ends_them) {
  std::atomic<bool> reported = false;
  std::atomic<std::size_t> begun = 0;
  const Jobs jobs{.count = 1'000'000'000,
                  .threads = 2,
                  .run = [&](std::size_t, std::size_t) -> Result<void> {
                    ++begun;
                    reported.wait(false);
                    return {};
                  },
                  .meanwhile = [&]() -> Result<void> {
                    reported = true;
                    reported.notify_all();
                    throw std::runtime_error("of the caller");
                  }};
  EXPECT_THROW(static_cast<void>(run_all(jobs)), std::runtime_error);
  EXPECT_LT(begun, jobs.count);
}

}  // namespace
}  // namespace ht
