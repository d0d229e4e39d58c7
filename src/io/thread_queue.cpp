#include "io/thread_queue.hpp"

#include <algorithm>
#include <new>

#include "base/fault_registry.hpp"

namespace ht::inline v1::io {

// More do not make a disk faster, and each has a stack.
ThreadQueue::ThreadQueue(Port& port, std::uint32_t depth, std::uint32_t most_threads)
    : ThreadQueue(
          [&port](const ReadRequest& request) {
            return port.read_at(request.file, request.offset, request.into);
          },
          depth, most_threads) {}

ThreadQueue::ThreadQueue(Reading reading, std::uint32_t depth, std::uint32_t most_threads)
    : reading_(std::move(reading)), depth_(depth), to_do_(depth), done_(depth) {
  threads_.reserve(std::min(depth, most_threads));
  try {
    for (std::uint32_t i = 0; i < std::min(depth, most_threads); ++i)
      threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    // Reading goes on with the threads that the system starts.
    return;
  } catch (const std::bad_alloc&) {
    // Started threads are ended by the destructor, so the constructor must not throw.
    return;
  }
}

ThreadQueue::~ThreadQueue() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    to_do_.clear();
  }
  to_do_added_.notify_all();
}

void ThreadQueue::work() {
  fault::unblock_signal();
  std::unique_lock lock(mutex_);
  while (true) {
    to_do_added_.wait(lock, [&] { return over_ || !to_do_.empty(); });
    if (over_) return;
    const ReadRequest request = to_do_.pop();
    lock.unlock();
    auto bytes = reading_(request);
    lock.lock();
    done_.push({request.tag, bytes});
    done_added_.notify_one();
  }
}

IoResult<void> ThreadQueue::submit(const ReadRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    if (under_way_ == depth_) {
      return tl::unexpected(std::make_error_code(std::errc::resource_unavailable_try_again));
    }
    to_do_.push(request);
    ++under_way_;
  }
  to_do_added_.notify_one();
  return {};
}

IoResult<ReadDone> ThreadQueue::complete() {
  std::unique_lock lock(mutex_);
  if (under_way_ == 0) return tl::unexpected(std::make_error_code(std::errc::invalid_argument));
  if (threads_.empty()) {
    const ReadRequest request = to_do_.pop();
    --under_way_;
    return ReadDone{request.tag, reading_(request)};
  }
  done_added_.wait(lock, [&] { return !done_.empty(); });
  ReadDone done = done_.pop();
  --under_way_;
  return done;
}

OpenQueue open_read_queue(Port& port, std::uint32_t depth) {
  auto queue = port.read_queue(depth);
  if (queue) return {*std::move(queue), true};
  // Whatever keeps the system's queue away, a limit on locked memory for one, does not keep threads away.
  return {std::make_unique<ThreadQueue>(port, depth), false};
}

}  // namespace ht::inline v1::io
