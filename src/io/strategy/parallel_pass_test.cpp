#include "io/strategy/parallel_pass.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <set>
#include <string>

#include "testing/blocked_signal.hpp"

namespace ht::io::parallel_pass_test {
namespace {

constexpr FetchMethod one{Engine::populate, 1};
constexpr FetchMethod two{Engine::populate, 2};
constexpr FetchMethod four{Engine::populate, 4};

Error broken(std::size_t piece) {
  return Error(ErrorCode::read_failed, "test", "piece " + std::to_string(piece));
}

TEST(ParallelPass, processes_every_piece_once_with_any_method) {
  for (const auto& methods : {std::vector<FetchMethod>{one}, std::vector<FetchMethod>{two},
                              std::vector<FetchMethod>{two, one, four}}) {
    for (const std::size_t pieces : {0U, 1U, 2U, 100U}) {
      std::vector<std::atomic<int>> times(pieces);
      ParallelPass pass(std::vector<std::uint64_t>(pieces, 10),
                        [&](std::size_t piece, std::size_t end, FetchMethod) -> Result<void> {
                          EXPECT_LT(piece, end);
                          EXPECT_LE(end, pieces);
                          ++times[piece];
                          return {};
                        },
                        {.methods = methods, .trial_bytes = 20});
      for (std::size_t i = 0; i < pieces; ++i) {
        ASSERT_TRUE(pass.wait_for(i));
        EXPECT_EQ(times[i], 1);
      }
      for (const auto& each : times) EXPECT_EQ(each, 1);
      if (pieces != 0) {
        EXPECT_GT(pass.rate(), 0);
      }
    }
  }
}

TEST(ParallelPass, works_with_sigbus_unblocked_if_the_caller_blocks_it) {
  const testing::BlockedSigbus blocked;
  const auto expect_unblocked = [](std::size_t, std::size_t, FetchMethod) -> Result<void> {
    EXPECT_FALSE(testing::BlockedSigbus::is_blocked());
    return {};
  };
  ParallelPass pass({10, 10}, expect_unblocked, {.methods = std::array{two}});
  EXPECT_TRUE(pass.wait_for(1));
}

TEST(ParallelPass, tries_each_candidate_that_fits) {
  const std::vector<FetchMethod> methods{two, one, four};
  std::mutex mutex;
  std::set<std::uint32_t> threads;
  ParallelPass pass(std::vector<std::uint64_t>(1000, 10),
                    [&](std::size_t, std::size_t, FetchMethod method) -> Result<void> {
                      const std::lock_guard lock(mutex);
                      threads.insert(method.threads);
                      return {};
                    },
                    {.methods = methods, .trial_bytes = 40});
  ASSERT_TRUE(pass.wait_for(999));
  EXPECT_EQ(threads, (std::set<std::uint32_t>{1, 2, 4}));
}

TEST(ParallelPass, works_on_several_pieces_at_once) {
  std::latch both(2);
  ParallelPass pass({10, 10},
                    [&](std::size_t, std::size_t, FetchMethod) -> Result<void> {
                      both.arrive_and_wait();
                      return {};
                    },
                    {.methods = std::span(&two, 1)});
  EXPECT_TRUE(pass.wait_for(1));
}

TEST(ParallelPass, reports_the_lowest_piece_that_failed) {
  for (int turn = 0; turn < 50; ++turn) {
    // Piece 4 always fails before piece 3.
    std::latch failed(1);
    ParallelPass pass(std::vector<std::uint64_t>(20, 10),
                      [&](std::size_t piece, std::size_t, FetchMethod) -> Result<void> {
                        if (piece == 3) failed.wait();
                        if (piece == 4) failed.count_down();
                        if (piece == 3 || piece == 4) return fail(broken(piece));
                        return {};
                      },
                      {.methods = std::span(&four, 1)});
    ASSERT_TRUE(pass.wait_for(2));
    const auto done = pass.wait_for(3);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message(), "piece 3");
    // Later calls return the same error.
    EXPECT_EQ(pass.wait_for(19).error().message(), "piece 3");
  }
}

TEST(ParallelPass, reports_the_same_error_without_threads) {
  ParallelPass pass({10, 10, 10},
                    [&](std::size_t piece, std::size_t, FetchMethod) -> Result<void> {
                      if (piece == 1) return fail(broken(piece));
                      return {};
                    },
                    {.methods = std::span(&one, 1)});
  EXPECT_TRUE(pass.wait_for(0));
  EXPECT_EQ(pass.wait_for(2).error().message(), "piece 1");
  EXPECT_EQ(pass.method(), one);
}

TEST(ParallelPass, starts_at_most_max_ahead_pieces) {
  std::atomic<std::size_t> highest = 0;
  ParallelPass pass(std::vector<std::uint64_t>(100, 10),
                    [&](std::size_t piece, std::size_t, FetchMethod) -> Result<void> {
                      std::size_t before = highest;
                      while (before < piece && !highest.compare_exchange_weak(before, piece)) continue;
                      return {};
                    },
                    {.methods = std::span(&four, 1), .max_ahead = 3});
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_LT(highest, i + 3);
    ASSERT_TRUE(pass.wait_for(i));
    EXPECT_LT(highest, i + 3);
  }
}

TEST(ParallelPass, stop_ends_the_wait) {
  for (const FetchMethod& method : {one, two}) {
    std::stop_source source;
    ParallelPass pass(std::vector<std::uint64_t>(10, 10),
                      [&](std::size_t piece, std::size_t, FetchMethod) -> Result<void> {
                        if (piece == 5) source.request_stop();
                        if (piece > 5) return fail(broken(piece));  // fails after the stop request
                        return {};
                      },
                      {.methods = std::span(&method, 1), .max_ahead = 1, .stop = source.get_token()});
    Result<void> done;
    for (std::size_t i = 0; i < 10 && done; ++i) done = pass.wait_for(i);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ErrorCode::cancelled);
  }
}

TEST(ParallelPass, destruction_joins_its_threads) {
  std::atomic<int> times = 0;
  {
    const ParallelPass pass(std::vector<std::uint64_t>(100'000, 10),
                            [&](std::size_t, std::size_t, FetchMethod) -> Result<void> {
                              ++times;
                              return {};
                            },
                            {.methods = std::span(&two, 1), .max_ahead = 10});
  }
  EXPECT_LE(times, 10);
}

}  // namespace
}  // namespace ht::io::parallel_pass_test
