// A queue for reads where the system has none: threads that read one each.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <htensor/io/port.hpp>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace ht::inline v1::io {

/// First in, first out, of a fixed capacity: a reader thread must not need memory.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : items_(capacity) {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// There has to be room.
  void push(const T& item) noexcept { items_[(begin_ + size_++) % items_.size()] = item; }
  /// There has to be one.
  T pop() noexcept {
    --size_;
    return items_[std::exchange(begin_, (begin_ + 1) % items_.size())];
  }
  void clear() noexcept { size_ = 0; }

 private:
  std::vector<T> items_;
  std::size_t begin_ = 0;
  std::size_t size_ = 0;
};

class ThreadQueue final : public ReadQueue {
 public:
  /// At most `depth` requests, which is not 0, with a thread for each of the first few. Where the system
  /// starts no thread, `complete` reads.
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
  BoundedQueue<ReadRequest> to_do_;
  BoundedQueue<ReadDone> done_;
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
