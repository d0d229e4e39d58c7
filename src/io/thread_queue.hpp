// A queue for reads where the system has none: threads that read one each.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <htensor/io/port.hpp>
#include <mutex>
#include <thread>
#include <vector>

namespace ht::inline v1::io {

class ThreadQueue final : public ReadQueue {
 public:
  /// `depth` requests at most, with a thread for each of the first few; where not one can be had, reading is
  /// done by who waits for it.
  ThreadQueue(Port& port, std::uint32_t depth, std::uint32_t most_threads = 8);
  /// The same with another way of reading, as of `Port::read_at`; called from many threads at once.
  using Reading = std::function<IoResult<std::uint64_t>(const ReadRequest&)>;
  ThreadQueue(Reading reading, std::uint32_t depth, std::uint32_t most_threads);
  ~ThreadQueue() override;

  IoResult<void> submit(const ReadRequest& request) override;
  IoResult<ReadDone> complete() override;

 private:
  void work();

  Reading reading_;
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
/// The system's queue where it has one, else threads.
[[nodiscard]] OpenQueue open_read_queue(Port& port, std::uint32_t depth);

}  // namespace ht::inline v1::io
