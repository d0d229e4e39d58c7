#include "io/strategy/parallel_pass.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/workers.hpp"

namespace ht::inline v1::io {
namespace {

// Trials may use at most 1/8 of all bytes.
constexpr std::uint64_t trial_share = 8;
// Another method replaces the default only if it is faster by this factor; a smaller lead is noise.
constexpr double clear_lead = 1.25;
// Trials per candidate in a round, interleaved with the other candidates, so that one slow moment does not
// decide.
constexpr int trials_per_round = 2;
// Keeps rates finite if the clock measures 0.
constexpr double min_seconds = 1e-9;

constexpr std::size_t half_of(std::size_t count) noexcept { return (count + 1) / 2; }

// Returns the number of trials: the warm-up and all rounds from `methods` candidates down to one.
std::uint64_t trials_for(std::size_t methods) noexcept {
  std::uint64_t trials = 1;
  for (std::size_t left = methods; left > 1; left = half_of(left)) trials += trials_per_round * left;
  return trials;
}

// Which method is fastest depends on the disk, its readahead setting and the processors.
constexpr std::array<FetchMethod, 6> cold_methods{{{Engine::populate, 2},
                                                   {Engine::read_ahead, 2},
                                                   {Engine::populate, 1},
                                                   {Engine::populate, 4},
                                                   {Engine::read_ahead, 1},
                                                   {Engine::read_ahead, 4}}};
constexpr std::array<FetchMethod, 1> cached_methods{{{Engine::populate, 1}}};
constexpr std::uint64_t pieces_per_trial = 8;
// The distance, in pieces, from the piece that a thread populates to the piece of its readahead call.
constexpr std::size_t read_ahead_pieces = 4;

std::span<const FetchMethod> methods_for(const FetchOptions& options) {
  if (options.cached) return cached_methods;
  return options.tune ? cold_methods : std::span(cold_methods).first(1);
}

std::vector<FileRange> pieces_of(std::span<const FileRange> ranges, std::uint64_t piece_bytes) {
  std::vector<FileRange> pieces;
  for (const auto& range : ranges) {
    for (std::uint64_t done = 0; done < range.bytes; done += pieces.back().bytes) {
      pieces.push_back({range.file, range.offset + done, std::min(piece_bytes, range.bytes - done)});
    }
  }
  return pieces;
}

}  // namespace

double Tuner::Candidate::rate() const noexcept {
  return static_cast<double>(bytes) / std::max(seconds, min_seconds);
}

Tuner::Tuner(std::span<const FetchMethod> methods, std::uint64_t total_bytes, std::uint64_t trial_bytes)
    : trial_bytes_(std::max<std::uint64_t>(trial_bytes, 1)) {
  const std::uint64_t max_trials = total_bytes / trial_share / trial_bytes_;
  std::size_t count = methods.size();
  while (count > 1 && trials_for(count) > max_trials) --count;
  candidates_.reserve(count);
  for (const FetchMethod& method : methods.first(count)) candidates_.push_back({.method = method});
  is_warm_ = count == 1;
}

void Tuner::record(std::uint64_t bytes, double seconds) {
  // The first trial is not counted: it also loads the file's extents and wakes idle disks and processors.
  if (!std::exchange(is_warm_, true)) return;
  auto& candidate = candidates_[current_];
  candidate.bytes += bytes;
  candidate.seconds += std::max(seconds, 0.0);
  if (candidates_.size() == 1 || ++current_ != candidates_.size()) return;
  current_ = 0;
  if (++trials_in_round_ == trials_per_round) end_round();
}

void Tuner::end_round() {
  // Raises the rate of the first candidate by `clear_lead`: the default or, once that is eliminated, the
  // fastest of the last round. Equal candidates keep their order.
  const FetchMethod preferred = candidates_.front().method;
  const auto score = [&](const Candidate& one) {
    return one.method == preferred ? one.rate() * clear_lead : one.rate();
  };
  // An insertion sort for the few candidates: clang rejects std::stable_sort, whose temporary buffer is
  // deprecated.
  for (auto one = candidates_.begin(); one != candidates_.end(); ++one) {
    const auto place = std::ranges::upper_bound(candidates_.begin(), one, score(*one), std::greater(), score);
    std::rotate(place, one, one + 1);
  }
  candidates_.resize(half_of(candidates_.size()));
  // The default, if it is left, stays first: the next round compares with the first candidate.
  const auto stays = std::ranges::find(candidates_, preferred, &Candidate::method);
  if (stays != candidates_.end()) std::rotate(candidates_.begin(), stays, stays + 1);
  trials_in_round_ = 0;
}

ParallelPass::ParallelPass(std::vector<std::uint64_t> piece_bytes, Work work, const PassOptions& options)
    : piece_bytes_(std::move(piece_bytes)),
      work_(std::move(work)),
      max_ahead_(std::max<std::size_t>(options.max_ahead, 1)),
      stop_(options.stop),
      tuner_(options.methods, std::accumulate(piece_bytes_.begin(), piece_bytes_.end(), std::uint64_t{0}),
             options.trial_bytes),
      done_(piece_bytes_.size()) {
  std::uint32_t threads = 0;
  for (const FetchMethod& method : options.methods) threads = std::max(threads, method.threads);
  begin_batch();
  if (piece_bytes_.size() > 1 && threads > 1)
    threads_ = start_threads(threads, [this](std::size_t thread_index) { this->work(thread_index); });
}

ParallelPass::~ParallelPass() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  may_begin_.notify_all();
}

// Requires the lock, as do `begin_batch` and `finish`.
bool ParallelPass::can_begin(std::size_t thread_index) const {
  if (thread_index >= tuner_.method().threads || next_ == batch_end_ || error_) return false;
  return next_ < awaited_ || next_ - awaited_ < max_ahead_;
}

void ParallelPass::begin_batch() {
  const std::uint64_t max_bytes = tuner_.trial_bytes().value_or(UINT64_MAX);
  batch_bytes_ = 0;
  batch_end_ = next_;
  while (batch_end_ < piece_bytes_.size() && batch_bytes_ < max_bytes)
    batch_bytes_ += piece_bytes_[batch_end_++];
  batch_begin_ = Clock::now();
}

void ParallelPass::finish(std::size_t piece, Result<void> result) {
  --in_flight_;
  if (result) {
    done_[piece] = true;
    while (done_before_ < done_.size() && done_[done_before_]) ++done_before_;
  } else if (piece < failed_piece_) {
    error_ = std::move(result).error();
    failed_piece_ = piece;
  }
  if (in_flight_ != 0 || next_ != batch_end_ || error_) return;
  tuner_.record(batch_bytes_, std::chrono::duration<double>(Clock::now() - batch_begin_).count());
  if (next_ != piece_bytes_.size()) begin_batch();
}

void ParallelPass::work(std::size_t thread_index) {
  std::unique_lock lock(mutex_);
  for (;;) {
    may_begin_.wait(lock,
                    [&] { return is_stopping_ || next_ == piece_bytes_.size() || can_begin(thread_index); });
    if (is_stopping_ || next_ == piece_bytes_.size()) return;
    const std::size_t piece = next_++;
    const std::size_t end = batch_end_;
    const FetchMethod method = tuner_.method();
    ++in_flight_;
    lock.unlock();
    auto result = without_bad_alloc([&] { return work_(piece, end, method); });
    lock.lock();
    finish(piece, std::move(result));
    // The next batch may use more threads, and after the last piece all threads exit.
    may_begin_.notify_all();
    finished_.notify_all();
  }
}

Result<void> ParallelPass::work_here(std::size_t piece) {
  while (done_before_ <= piece) {
    if (error_) return fail(*error_);
    if (stop_.stop_requested()) return fail(Error(ErrorCode::cancelled));
    ++in_flight_;
    const std::size_t next = next_++;
    finish(next, work_(next, batch_end_, tuner_.method()));
  }
  return {};
}

Result<void> ParallelPass::wait_for(std::size_t piece) {
  if (threads_.empty()) return work_here(piece);
  if (stop_.stop_requested()) return fail(Error(ErrorCode::cancelled));
  std::unique_lock lock(mutex_);
  awaited_ = piece;
  if (max_ahead_ != SIZE_MAX) may_begin_.notify_all();
  // Waits for the pieces before a failed one, so that the lowest failure is reported.
  const auto is_known = [&] { return done_before_ > piece || done_before_ == failed_piece_; };
  if (!finished_.wait(lock, stop_, is_known)) return fail(Error(ErrorCode::cancelled));
  if (done_before_ > piece) return {};
  return fail(*error_);
}

FetchMethod ParallelPass::method() const {
  const std::lock_guard lock(mutex_);
  auto method = tuner_.method();
  const auto started = static_cast<std::uint32_t>(std::max<std::size_t>(threads_.size(), 1));
  method.threads = std::min(method.threads, started);
  return method;
}

double ParallelPass::rate() const {
  const std::lock_guard lock(mutex_);
  return tuner_.rate();
}

Result<FetchSummary> fetch_pages(MappedFiles files, std::span<const FileRange> ranges,
                                 const PieceFetched& each, const FetchOptions& options) {
  const auto pieces = pieces_of(ranges, options.piece_bytes);
  std::vector<std::uint64_t> sizes;
  sizes.reserve(pieces.size());
  for (const auto& piece : pieces) sizes.push_back(piece.bytes);
  const auto advise = [&](const FileRange& piece, Strategy::Advice advice) {
    return files[piece.file]->advise(piece.offset, piece.bytes, advice);
  };
  const auto fetch = [&](std::size_t piece_index, std::size_t end, FetchMethod method) -> Result<void> {
    const std::size_t later = piece_index + read_ahead_pieces;
    if (method.engine == Engine::read_ahead && later < end) {
      // A failure is reported when that piece is populated.
      static_cast<void>(advise(pieces[later], Strategy::Advice::will_need));
    }
    return advise(pieces[piece_index], Strategy::Advice::populate);
  };
  ParallelPass pass(std::move(sizes), fetch,
                    {.methods = methods_for(options),
                     .trial_bytes = pieces_per_trial * options.piece_bytes,
                     .max_ahead = options.max_ahead,
                     .stop = options.stop});
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    HT_TRY(pass.wait_for(i));
    HT_TRY(each(pieces[i]));
  }
  return FetchSummary{pass.method(), pass.rate()};
}

}  // namespace ht::inline v1::io
