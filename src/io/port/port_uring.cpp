#include <liburing.h>

#include <algorithm>
#include <cerrno>

#include "io/port/port.hpp"
#include "io/port/port_parts.hpp"

namespace ht::inline v1::io {
namespace {

class UringQueue final : public ReadQueue {
 public:
  explicit UringQueue(std::uint32_t depth) : depth_(depth) {}

  ~UringQueue() override {
    // Waits for the reads that the kernel has accepted: they write into the caller's memory, which may be
    // freed next. The ring drops reads that were not accepted.
    while (is_open_ && in_flight_ > io_uring_sq_ready(&ring_)) {
      io_uring_cqe* completion = nullptr;
      if (io_uring_wait_cqe(&ring_, &completion) != 0) continue;  // interrupted by a signal
      io_uring_cqe_seen(&ring_, completion);
      --in_flight_;
    }
    if (is_open_) io_uring_queue_exit(&ring_);
  }

  /// Returns 0 or an errno value.
  int open() {
    const int result = io_uring_queue_init(depth_, &ring_, 0);
    is_open_ = result == 0;
    return -result;
  }

  IoResult<void> submit(const ReadRequest& request) override {
    io_uring_sqe* const entry = in_flight_ < depth_ ? io_uring_get_sqe(&ring_) : nullptr;
    if (entry == nullptr) return failed_with(EAGAIN);
    // A request has a 32-bit size; a larger one becomes a short read, which callers handle.
    constexpr std::size_t max_bytes = std::size_t{1} << 30;
    const auto bytes = static_cast<unsigned>(std::min(request.into.size(), max_bytes));
    io_uring_prep_read(entry, request.file.value, request.into.data(), bytes, request.offset);
    entry->user_data = request.tag;
    ++in_flight_;
    // A failure is ignored: `complete` submits the entry again and reports a permanent failure.
    static_cast<void>(io_uring_submit(&ring_));
    return {};
  }

  IoResult<ReadDone> complete() override {
    if (in_flight_ == 0) return failed_with(EINVAL);
    io_uring_cqe* completion = nullptr;
    int result = 0;
    // A call that submits entries may return after a signal without a completion, so both calls are repeated.
    do {
      result = io_uring_submit_and_wait(&ring_, 1);
      if (result >= 0) result = io_uring_wait_cqe(&ring_, &completion);
    } while (result == -EINTR);
    if (result < 0) return failed_with(-result);
    ReadDone read{.tag = completion->user_data, .bytes = 0};
    if (completion->res >= 0) {
      read.bytes = static_cast<std::uint64_t>(completion->res);
    } else {
      read.bytes = failed_with(-completion->res);
    }
    io_uring_cqe_seen(&ring_, completion);
    --in_flight_;
    return read;
  }

 private:
  std::uint32_t depth_;
  std::uint32_t in_flight_ = 0;
  bool is_open_ = false;
  io_uring ring_{};
};

}  // namespace

IoResult<std::unique_ptr<ReadQueue>> uring_queue(std::uint32_t depth) {
  auto queue = std::make_unique<UringQueue>(depth);
  const int error_number = queue->open();
  // Containers forbid io_uring with EPERM; a kernel without it returns ENOSYS.
  if (error_number == EPERM || error_number == EACCES) return failed_with(ENOSYS);
  if (error_number != 0) return failed_with(error_number);
  return queue;
}

}  // namespace ht::inline v1::io
