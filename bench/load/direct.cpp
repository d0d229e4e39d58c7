#include "bench/load/contenders.hpp"

#include <cstdio>

#if HT_HAVE_URING
#include <liburing.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bench/harness/sum.hpp"

namespace ht::bench {
namespace {

constexpr std::uint64_t block = 4096;

class Queue {
 public:
  explicit Queue(unsigned depth) {
    errno = -io_uring_queue_init(depth, &queue_, 0);
    system_must(errno == 0, "io_uring_queue_init");
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  ~Queue() { io_uring_queue_exit(&queue_); }

  void submit(int fd, std::byte* into, std::uint64_t bytes, std::uint64_t offset, std::uint64_t tag) {
    io_uring_sqe* const entry = io_uring_get_sqe(&queue_);
    must(entry != nullptr, "the io_uring queue is full");
    io_uring_prep_read(entry, fd, into, static_cast<unsigned>(bytes), offset);
    entry->user_data = tag;
    must(io_uring_submit(&queue_) == 1, "io_uring_submit did not submit the read");
  }

  /// Waits for a read. Returns its tag and its bytes.
  std::pair<std::uint64_t, std::uint64_t> wait() {
    io_uring_cqe* done = nullptr;
    int result = -EINTR;
    while (result == -EINTR) result = io_uring_wait_cqe(&queue_, &done);
    if (result == 0) result = std::min(done->res, 0);
    errno = -result;
    system_must(result == 0, "a direct read");
    const std::pair answer(done->user_data, static_cast<std::uint64_t>(done->res));
    io_uring_cqe_seen(&queue_, done);
    return answer;
  }

 private:
  io_uring queue_{};
};

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

// BufferOf returns the memory for a chunk. OnChunk is called after the chunk was read.
using BufferOf = std::function<std::byte*(unsigned slot, std::uint64_t offset)>;
using OnChunk = std::function<void(unsigned slot, std::uint64_t offset, std::uint64_t bytes)>;

// The caller owns the queue, because the destructor of the queue must not be timed.
void read_all(const Workload& workload, const OpenFile& file, DirectShape shape, Queue& queue,
              const BufferOf& buffer_of, const OnChunk& on_chunk) {
  std::vector<std::uint64_t> offsets(shape.depth);
  std::uint64_t next = 0;
  unsigned in_flight = 0;
  const auto begin = [&](unsigned slot) {
    if (next >= workload.file_bytes) return;
    const auto left = (workload.file_bytes - next + block - 1) / block * block;
    queue.submit(file.fd(), buffer_of(slot, next), std::min(shape.chunk_bytes, left), next, slot);
    offsets[slot] = next;
    next += shape.chunk_bytes;
    ++in_flight;
  };
  for (unsigned slot = 0; slot < shape.depth; ++slot) begin(slot);
  while (in_flight > 0) {
    const auto [tag, bytes] = queue.wait();
    --in_flight;
    const auto slot = static_cast<unsigned>(tag);
    must(bytes == std::min(shape.chunk_bytes, workload.file_bytes - offsets[slot]),
         "a direct read returned too few bytes");
    on_chunk(slot, offsets[slot], bytes);
    begin(slot);
  }
}

}  // namespace

TurnResult all_by_direct(const Workload& workload, const Destination& into, DirectShape shape) {
  into.overwrite_samples(workload);
  const Stopwatch watch;
  const OpenFile file(workload.path, O_DIRECT);
  Queue queue(shape.depth);
  read_all(
      workload, file, shape, queue, [&](unsigned, std::uint64_t offset) { return into.data() + offset; },
      [](unsigned, std::uint64_t, std::uint64_t) {});
  const double seconds = watch.seconds();
  return {seconds, sample_answer(workload, into.data())};
}

TurnResult one_pass_by_direct(const Workload& workload, DirectShape shape) {
  const auto buffer_bytes = static_cast<std::size_t>(shape.depth * shape.chunk_bytes);
  const Memory memory(static_cast<std::byte*>(std::aligned_alloc(block, buffer_bytes)), &std::free);
  must(memory != nullptr, "no memory for the buffers");
  std::fill_n(memory.get(), buffer_bytes, std::byte{1});
  const auto place = [&](unsigned slot) { return memory.get() + slot * shape.chunk_bytes; };
  std::uint64_t sum = 0;
  const Stopwatch watch;
  const OpenFile file(workload.path, O_DIRECT);
  Queue queue(shape.depth);
  read_all(
      workload, file, shape, queue, [&](unsigned slot, std::uint64_t) { return place(slot); },
      [&](unsigned slot, std::uint64_t offset, std::uint64_t bytes) {
        // Skip the header, which is not tensor data.
        const auto skipped = std::min(bytes, workload.data_begin - std::min(offset, workload.data_begin));
        sum += sum_of(offset + skipped, {place(slot) + skipped, static_cast<std::size_t>(bytes - skipped)});
      });
  return {watch.seconds(), sum};
}

std::optional<DirectShape> best_direct_shape(const Workload& workload) {
  std::optional<DirectShape> best;
  double best_seconds = 0;
  for (const unsigned depth : {2U, 4U, 8U, 16U}) {
    for (const std::uint64_t chunk_bytes : {std::uint64_t{4} << 20, std::uint64_t{8} << 20}) {
      const DirectShape shape{depth, chunk_bytes};
      double seconds = 0;
      try {
        seconds = one_pass_by_direct(workload, shape).seconds;
      } catch (const std::system_error& error) {
        std::printf("left out: direct reads, as the system refuses them (%s)\n", error.what());
        return std::nullopt;
      }
      if (best && seconds >= best_seconds) continue;
      best = shape;
      best_seconds = seconds;
    }
  }
  return best;
}

}  // namespace ht::bench

#else

namespace ht::bench {

std::optional<DirectShape> best_direct_shape(const Workload&) {
  std::printf("left out: direct reads, as liburing was not installed at build time\n");
  return std::nullopt;
}

TurnResult all_by_direct(const Workload&, const Destination&, DirectShape) { return {}; }
TurnResult one_pass_by_direct(const Workload&, DirectShape) { return {}; }

}  // namespace ht::bench

#endif
