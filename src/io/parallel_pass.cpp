#include "io/parallel_pass.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <system_error>

#include "base/fault_registry.hpp"

namespace ht::inline v1::io {
namespace {

std::uint64_t sum_of_all(const std::vector<std::uint64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
}

double seconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

ParallelPass::ParallelPass(std::vector<std::uint64_t> piece_bytes, Work work, const PassOptions& options)
    : piece_bytes_(std::move(piece_bytes)),
      work_(std::move(work)),
      max_ahead_(std::max<std::size_t>(options.max_ahead, 1)),
      stop_(options.stop),
      tuner_(options.ways, sum_of_all(piece_bytes_), options.trial_bytes),
      done_(piece_bytes_.size()) {
  std::uint32_t threads = 0;
  for (const Way& way : options.ways) threads = std::max(threads, way.threads);
  begin_batch();
  if (piece_bytes_.size() > 1 && threads > 1) start_threads(threads);
}

ParallelPass::~ParallelPass() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  may_begin_.notify_all();
}

void ParallelPass::start_threads(std::uint32_t count) {
  threads_.reserve(count);
  try {
    for (std::uint32_t number = 0; number < count; ++number) {
      threads_.emplace_back([this, number] { this->work(number); });
    }
  } catch (const std::system_error&) {
    // There are as many as the system starts.
    return;
  } catch (const std::bad_alloc&) {
    // Threads that run are ended by the destructor, so the constructor must not throw.
    return;
  }
}

// With the lock held, as all that follow.
bool ParallelPass::can_begin(std::uint32_t number) const {
  if (number >= tuner_.way().threads || next_ == batch_end_ || error_) return false;
  return next_ < wanted_ || next_ - wanted_ < max_ahead_;
}

void ParallelPass::begin_batch() {
  const std::uint64_t most = tuner_.trial_bytes().value_or(UINT64_MAX);
  batch_bytes_ = 0;
  batch_end_ = next_;
  while (batch_end_ < piece_bytes_.size() && batch_bytes_ < most) batch_bytes_ += piece_bytes_[batch_end_++];
  batch_begin_ = Clock::now();
}

void ParallelPass::finish(std::size_t piece, Result<void> result) {
  --under_way_;
  if (result) {
    done_[piece] = true;
    while (done_before_ < done_.size() && done_[done_before_]) ++done_before_;
  } else if (piece < failed_piece_) {
    error_ = std::move(result).error();
    failed_piece_ = piece;
  }
  if (under_way_ != 0 || next_ != batch_end_ || error_) return;
  tuner_.record(batch_bytes_, seconds_of(Clock::now() - batch_begin_));
  if (next_ != piece_bytes_.size()) begin_batch();
}

void ParallelPass::work(std::uint32_t number) {
  fault::unblock_signal();
  std::unique_lock lock(mutex_);
  for (;;) {
    may_begin_.wait(lock, [&] { return over_ || next_ == piece_bytes_.size() || can_begin(number); });
    if (over_ || next_ == piece_bytes_.size()) return;
    const std::size_t piece = next_++;
    const std::size_t end = batch_end_;
    const Way way = tuner_.way();
    ++under_way_;
    lock.unlock();
    auto result = without_bad_alloc([&] { return work_(piece, end, way); });
    lock.lock();
    finish(piece, std::move(result));
    // Another batch may have more threads; the last piece ends them all.
    may_begin_.notify_all();
    finished_.notify_all();
  }
}

Result<void> ParallelPass::work_here(std::size_t piece) {
  while (done_before_ <= piece) {
    if (error_) return fail(*error_);
    if (stop_.stop_requested()) return fail(Error(ErrorCode::cancelled));
    ++under_way_;
    const std::size_t next = next_++;
    finish(next, work_(next, batch_end_, tuner_.way()));
  }
  return {};
}

Result<void> ParallelPass::wait_for(std::size_t piece) {
  if (threads_.empty()) return work_here(piece);
  if (stop_.stop_requested()) return fail(Error(ErrorCode::cancelled));
  std::unique_lock lock(mutex_);
  wanted_ = piece;
  if (max_ahead_ != SIZE_MAX) may_begin_.notify_all();
  // Pieces before one that failed are finished, so that the lowest failure is the one that is reported.
  const auto is_known = [&] { return done_before_ > piece || done_before_ == failed_piece_; };
  if (!finished_.wait(lock, stop_, is_known)) return fail(Error(ErrorCode::cancelled));
  if (done_before_ > piece) return {};
  return fail(*error_);
}

Way ParallelPass::way() const {
  const std::lock_guard lock(mutex_);
  auto way = tuner_.way();
  const auto started = static_cast<std::uint32_t>(std::max<std::size_t>(threads_.size(), 1));
  way.threads = std::min(way.threads, started);
  return way;
}

double ParallelPass::rate() const {
  const std::lock_guard lock(mutex_);
  return tuner_.rate();
}

}  // namespace ht::inline v1::io
