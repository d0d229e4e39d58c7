// A queue for reads where the system has none: threads that read one each.
#pragma once

#include <condition_variable>
#include <deque>
#include <htensor/io/port.hpp>
#include <mutex>
#include <thread>
#include <vector>

namespace ht::inline v1::io {

class ThreadQueue final : public ReadQueue {
 public:
  /// `depth` requests at most, with a thread for each of the first few. Throws std::system_error where a
  /// thread cannot be had, and std::bad_alloc.
  ThreadQueue(Port& port, std::uint32_t depth);
  ~ThreadQueue() override;

  IoResult<void> submit(const ReadRequest& request) override;
  IoResult<ReadDone> complete() override;

 private:
  void work();

  Port& port_;
  std::uint32_t depth_;
  std::uint32_t under_way_ = 0;
  std::mutex mutex_;
  std::condition_variable to_do_added_;
  std::condition_variable done_added_;
  std::deque<ReadRequest> to_do_;
  std::deque<ReadDone> done_;
  bool over_ = false;
  std::vector<std::jthread> threads_;  // last, as they use the rest
};

struct OpenQueue {
  std::unique_ptr<ReadQueue> queue;
  bool is_the_systems = false;
};
[[nodiscard]] IoResult<OpenQueue> open_thread_queue(Port& port, std::uint32_t depth);
/// The system's queue where it has one, else threads. Fails where not even those can be had.
[[nodiscard]] IoResult<OpenQueue> open_read_queue(Port& port, std::uint32_t depth);

}  // namespace ht::inline v1::io
