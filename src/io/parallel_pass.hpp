// Pieces that several threads work on ahead of the one thread that waits for them in order.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "io/tuner.hpp"

namespace ht::inline v1::io {

struct PassOptions {
  /// Not empty. The first is the default; the others are tried on the first pieces, see Tuner.
  std::span<const Way> ways;
  std::uint64_t trial_bytes = std::uint64_t{32} << 20;
  /// How many pieces may be begun from the one that is waited for on, itself included.
  std::size_t max_ahead = SIZE_MAX;
  /// Ends a wait. The caller looks at it, too.
  std::stop_token stop{};
};

/// Starts its threads when it is made and ends them when it goes. A single piece, and all pieces where the
/// only way has one thread or the system starts no thread, are worked on by the thread that waits.
class ParallelPass {
 public:
  /// One piece, by a way. Reads ahead must not go beyond `end`: pieces from there on may be tried by another
  /// way. Called from several threads at once.
  using Work = std::function<Result<void>(std::size_t piece, std::size_t end, Way way)>;

  ParallelPass(std::vector<std::uint64_t> piece_bytes, Work work, const PassOptions& options);
  ParallelPass(const ParallelPass&) = delete;
  ParallelPass& operator=(const ParallelPass&) = delete;
  ~ParallelPass();

  /// Waits until all pieces up to this one are done; numbers do not decrease from call to call. The error is
  /// that of the lowest piece that failed, or a bare `cancelled` where a stop was requested meanwhile.
  [[nodiscard]] Result<void> wait_for(std::size_t piece);

  /// What is in use now, and its bytes per second so far: once all pieces are done, the choice.
  [[nodiscard]] Way way() const;
  [[nodiscard]] double rate() const;

 private:
  using Clock = std::chrono::steady_clock;

  void start_threads(std::uint32_t count);
  void work(std::uint32_t number);
  [[nodiscard]] Result<void> work_here(std::size_t piece);
  [[nodiscard]] bool can_begin(std::uint32_t number) const;
  void begin_batch();
  void finish(std::size_t piece, Result<void> result);

  std::vector<std::uint64_t> piece_bytes_;
  Work work_;
  std::size_t max_ahead_;
  std::stop_token stop_;

  mutable std::mutex mutex_;
  std::condition_variable may_begin_;
  std::condition_variable_any finished_;
  Tuner tuner_;
  std::size_t next_ = 0;         // the first piece that was not begun
  std::size_t wanted_ = 0;       // the one that is waited for
  std::size_t done_before_ = 0;  // all pieces before this one are done
  std::vector<bool> done_;
  std::size_t under_way_ = 0;
  std::size_t batch_end_ = 0;  // pieces before it are worked on in the current way
  std::uint64_t batch_bytes_ = 0;
  Clock::time_point batch_begin_;
  std::optional<Error> error_;  // of the lowest piece that failed
  std::size_t failed_piece_ = SIZE_MAX;
  bool over_ = false;
  std::vector<std::jthread> threads_;  // last, as they use the rest
};

}  // namespace ht::inline v1::io
