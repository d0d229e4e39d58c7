// A read queue for systems without one: each thread performs one read at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "io/port/port.hpp"

namespace ht::inline v1::io {

class ThreadQueue final : public ReadQueue {
 public:
  /// Reads as `Port::read_at` does; called from many threads at once.
  using ReadFunction = std::function<IoResult<std::uint64_t>(const ReadRequest&)>;
  /// Holds at most `depth` reads in flight, and starts one thread for each, up to `max_threads`. If no thread
  /// can be started, `complete` performs the reads.
  ThreadQueue(ReadFunction read, std::uint32_t depth, std::uint32_t max_threads);
  ~ThreadQueue() override;

  IoResult<void> submit(const ReadRequest& request) override;
  IoResult<ReadDone> complete() override;

 private:
  void work();

  ReadFunction read_;
  std::uint32_t depth_;
  std::uint32_t in_flight_ = 0;
  std::mutex mutex_;
  std::condition_variable request_added_;
  std::condition_variable completion_added_;
  // Both have capacity `depth_` from the start: a reader thread must not allocate.
  std::vector<ReadRequest> pending_;
  std::vector<ReadDone> completed_;
  bool is_stopping_ = false;
  std::vector<std::jthread> threads_;  // last: the threads use the other members
};

}  // namespace ht::inline v1::io
