// Which way of fetching is fastest here, by timing the first pieces: pure arithmetic over measured times.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ht::inline v1::io {

/// How pages are brought in.
enum class Engine : std::uint8_t {
  populate,    ///< each thread faults in its piece
  read_ahead,  ///< the same, and the reads of later pieces are requested before that
};

/// An engine and the number of threads that run it.
struct Way {
  Engine engine = Engine::populate;
  std::uint32_t threads = 1;

  friend bool operator==(const Way&, const Way&) = default;
};

/// Tries several ways in rounds and keeps the faster half of them after each round, until one is left. The
/// first trial is a warm-up and does not count. The same times always give the same choice.
class Tuner {
 public:
  /// `ways` is not empty; the first one is the default, and stays unless another one is clearly faster. No
  /// more than an eighth of `total_bytes` is spent on trials of `trial_bytes` each: ways at the end of the
  /// list are left out, so that a small file gets the default without a trial.
  Tuner(std::span<const Way> ways, std::uint64_t total_bytes, std::uint64_t trial_bytes);

  /// The way to use next.
  [[nodiscard]] Way way() const noexcept { return candidates_[current_].way; }
  /// How many bytes to fetch by it before the next `record`; nothing: all that are left.
  [[nodiscard]] std::optional<std::uint64_t> trial_bytes() const noexcept;
  /// What fetching by `way()` took. Moves on to the next trial, or stays where the choice is made.
  void record(std::uint64_t bytes, double seconds);

  /// Bytes per second of `way()` in all of its pieces; 0 before the first `record`.
  [[nodiscard]] double rate() const noexcept { return candidates_[current_].rate(); }

 private:
  struct Candidate {
    Way way;
    std::uint64_t bytes = 0;
    double seconds = 0;

    [[nodiscard]] double rate() const noexcept;
  };
  void end_round();

  std::vector<Candidate> candidates_;  // still tried; the default, while it is, comes first
  std::size_t current_ = 0;
  int turns_ = 0;  // of all candidates in this round
  bool is_warm_ = false;
  std::uint64_t trial_bytes_;
};

}  // namespace ht::inline v1::io
