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

ThreadQueue::ThreadQueue(ReadFunction read, std::uint32_t depth, std::uint32_t max_threads)
    : read_(std::move(read)), depth_(depth) {
  pending_.reserve(depth);
  completed_.reserve(depth);
  threads_ = start_threads(std::min(depth, max_threads), [this](std::size_t) { work(); });
}

ThreadQueue::~ThreadQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    pending_.clear();
  }
  request_added_.notify_all();
}

void ThreadQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    request_added_.wait(lock, [&] { return is_stopping_ || !pending_.empty(); });
    if (is_stopping_) return;
    const ReadRequest request = take_first(pending_);
    lock.unlock();
    auto bytes = read_(request);
    lock.lock();
    completed_.push_back({request.tag, bytes});
    completion_added_.notify_one();
  }
}

IoResult<void> ThreadQueue::submit(const ReadRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    if (in_flight_ == depth_) {
      return tl::unexpected(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    pending_.push_back(request);
    ++in_flight_;
  }
  request_added_.notify_one();
  return {};
}

IoResult<ReadDone> ThreadQueue::complete() {
  std::unique_lock lock(mutex_);
  if (in_flight_ == 0) return tl::unexpected(std::make_error_code(std::errc::invalid_argument));
  --in_flight_;
  if (threads_.empty()) {
    const ReadRequest request = take_first(pending_);
    return ReadDone{request.tag, read_(request)};
  }
  completion_added_.wait(lock, [&] { return !completed_.empty(); });
  return take_first(completed_);
}

}  // namespace ht::inline v1::io
