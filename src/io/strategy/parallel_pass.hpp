// Several threads process pieces ahead of one thread that waits for the pieces in order. The first pieces are
// timed to choose the fastest of several methods. Used to fetch pages of mapped files and to allocate pages.
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

#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1::io {

/// How pages are fetched.
enum class Engine : std::uint8_t {
  populate,    ///< each thread faults in its piece
  read_ahead,  ///< the same, after a readahead call for a later piece
};

/// An engine and the number of threads that run it.
struct FetchMethod {
  Engine engine = Engine::populate;
  std::uint32_t threads = 1;

  friend bool operator==(const FetchMethod&, const FetchMethod&) = default;
};

/// Tries several methods in rounds and keeps the faster half of them after each round, until one is left. The
/// first trial is a warm-up and does not count. The same times always give the same choice.
class Tuner {
 public:
  /// `methods` is not empty; the first one is the default, and is kept unless another one is clearly faster.
  /// All trials together, of `trial_bytes` each, use at most an eighth of `total_bytes`. If that is too
  /// little for trials of all methods, those at the end of the list are not tried; a small file uses the
  /// default without a trial.
  Tuner(std::span<const FetchMethod> methods, std::uint64_t total_bytes, std::uint64_t trial_bytes);

  /// The method to use next.
  [[nodiscard]] FetchMethod method() const noexcept { return candidates_[current_].method; }
  /// Bytes to fetch by `method()` before the next `record`; nullopt for all remaining bytes.
  [[nodiscard]] std::optional<std::uint64_t> trial_bytes() const noexcept {
    return candidates_.size() == 1 ? std::nullopt : std::optional(trial_bytes_);
  }
  /// Records the time of a fetch by `method()`. Moves on to the next trial until the choice is made.
  void record(std::uint64_t bytes, double seconds);

  /// Bytes per second of `method()` in all of its pieces; 0 before the first `record`.
  [[nodiscard]] double rate() const noexcept { return candidates_[current_].rate(); }

 private:
  struct Candidate {
    FetchMethod method;
    std::uint64_t bytes = 0;
    double seconds = 0;

    [[nodiscard]] double rate() const noexcept;
  };
  void end_round();

  std::vector<Candidate> candidates_;  // the default comes first while it is a candidate
  std::size_t current_ = 0;
  int trials_in_round_ = 0;  // trials that every candidate has completed in this round
  bool is_warm_ = false;
  std::uint64_t trial_bytes_;
};

struct PassOptions {
  /// Not empty. The first is the default; the others are tried on the first pieces, see Tuner.
  std::span<const FetchMethod> methods;
  std::uint64_t trial_bytes = std::uint64_t{32} << 20;
  /// A piece starts only if it is less than `max_ahead` pieces after the awaited one.
  std::size_t max_ahead = SIZE_MAX;
  /// A stop request ends `wait_for` with `cancelled`.
  std::stop_token stop{};
};

/// The constructor starts the threads, the destructor joins them. The waiting thread does the work itself if
/// there is a single piece, if all methods have one thread, or if no thread could be started.
class ParallelPass {
 public:
  /// Processes one piece by `method`. Readahead must not go beyond `end`: pieces from there on may be
  /// processed by another method. Called from several threads at once.
  using Work = std::function<Result<void>(std::size_t piece, std::size_t end, FetchMethod method)>;

  ParallelPass(std::vector<std::uint64_t> piece_bytes, Work work, const PassOptions& options);
  ParallelPass(const ParallelPass&) = delete;
  ParallelPass& operator=(const ParallelPass&) = delete;
  ~ParallelPass();

  /// Waits until all pieces up to this one are done; `piece` must not decrease from call to call. Returns the
  /// error of the lowest piece that failed, or `cancelled` without a message after a stop request.
  [[nodiscard]] Result<void> wait_for(std::size_t piece);

  /// The current method and its bytes per second so far. After all pieces are done, this is the final choice.
  [[nodiscard]] FetchMethod method() const;
  [[nodiscard]] double rate() const;

 private:
  using Clock = std::chrono::steady_clock;

  void work(std::size_t thread_index);
  [[nodiscard]] Result<void> work_here(std::size_t piece);
  [[nodiscard]] bool can_begin(std::size_t thread_index) const;
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
  std::size_t next_ = 0;         // the next piece to start
  std::size_t awaited_ = 0;      // the piece of the last `wait_for`
  std::size_t done_before_ = 0;  // all pieces before this one are done
  std::vector<bool> done_;
  std::size_t in_flight_ = 0;
  std::size_t batch_end_ = 0;  // pieces before it use the current method
  std::uint64_t batch_bytes_ = 0;
  Clock::time_point batch_begin_;
  std::optional<Error> error_;  // of the lowest piece that failed
  std::size_t failed_piece_ = SIZE_MAX;
  bool is_stopping_ = false;
  std::vector<std::jthread> threads_;  // last: the threads use the other members
};

struct FetchOptions {
  std::uint64_t piece_bytes = std::uint64_t{4} << 20;
  /// Whether the pages are in the page cache; one thread then fetches them, without trials.
  bool cached = false;
  /// Whether to time the first pieces to choose engine and number of threads. Set it only if the callback
  /// `each` of `fetch_pages` does not block.
  bool tune = true;
  /// A piece is fetched only if it is less than `max_ahead` pieces after the current one.
  std::size_t max_ahead = SIZE_MAX;
  std::stop_token stop{};
};

struct FetchSummary {
  FetchMethod method{};
  double bytes_per_second = 0;
};

/// Called with each piece in order, on the thread of the caller, once its pages are in memory.
using PieceFetched = std::function<Result<void>(const FileRange& piece)>;

/// Fetches all pages of the ranges. Returns the error of the lowest failed piece, or `cancelled` without a
/// message after a stop request.
[[nodiscard]] Result<FetchSummary> fetch_pages(MappedFiles files, std::span<const FileRange> ranges,
                                               const PieceFetched& each, const FetchOptions& options = {});

}  // namespace ht::inline v1::io
