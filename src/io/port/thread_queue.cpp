#include "io/port/thread_queue.hpp"

#include <algorithm>

#include "base/workers.hpp"
#include "io/port/port.hpp"

namespace ht::inline v1::io {
namespace {

template <class T>
T take_first(std::vector<T>& items) noexcept {
  const T first = items.front();
  items.erase(items.begin());
  return first;
}

}  // namespace

ThreadQueue::ThreadQueue(Reading reading, std::uint32_t depth, std::uint32_t max_threads)
    : reading_(std::move(reading)), depth_(depth) {
  to_do_.reserve(depth);
  done_.reserve(depth);
  threads_ = start_threads(std::min(depth, max_threads), [this](std::size_t) { work(); });
}

ThreadQueue::~ThreadQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    to_do_.clear();
  }
  to_do_added_.notify_all();
}

void ThreadQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    to_do_added_.wait(lock, [&] { return is_stopping_ || !to_do_.empty(); });
    if (is_stopping_) return;
    const ReadRequest request = take_first(to_do_);
    lock.unlock();
    auto bytes = reading_(request);
    lock.lock();
    done_.push_back({request.tag, bytes});
    done_added_.notify_one();
  }
}

IoResult<void> ThreadQueue::submit(const ReadRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    if (in_flight_ == depth_) {
      return tl::unexpected(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    to_do_.push_back(request);
    ++in_flight_;
  }
  to_do_added_.notify_one();
  return {};
}

IoResult<ReadDone> ThreadQueue::complete() {
  std::unique_lock lock(mutex_);
  if (in_flight_ == 0) return tl::unexpected(std::make_error_code(std::errc::invalid_argument));
  --in_flight_;
  if (threads_.empty()) {
    const ReadRequest request = take_first(to_do_);
    return ReadDone{request.tag, reading_(request)};
  }
  done_added_.wait(lock, [&] { return !done_.empty(); });
  return take_first(done_);
}

}  // namespace ht::inline v1::io
