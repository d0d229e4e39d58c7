// Threads that the library computes with.
//
// The library computes on one pool of threads, one thread per processor. The first work that
// needs a thread starts it; it sleeps between works and is never joined. A program that wants fewer threads,
// or threads apart from those of other work, creates `Workers` of its own and passes a pointer in the options
// of an operation:
//
//   ht::Workers two(2);
//   const auto y = HT_TRY(ht::softmax(x, {.workers = &two}));
//
// Ownership: `Workers` must outlive all operations that use it. Its destructor joins its threads.
// Threads: operations may use the same `Workers` from many threads at once, and from within each other. The
// calling thread always takes part in its own work if no other thread is free, so nested calls never wait for
// each other.
// Fork: threads do not exist in a forked child. `Workers`, the library's pool included, starts new ones there
// at the next use.
// Results of the library's own kernels never depend on the number of threads.
#pragma once

#include <atomic>
#include <cstddef>

namespace ht::inline v1 {

class OpenClQueue;

namespace detail {
class Pool;
}

class Workers {
 public:
  /// At most `threads` threads, one per processor if 0. Starts no thread yet.
  constexpr explicit Workers(std::size_t threads = 0) noexcept : threads_(threads) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  /// How many threads work at once for one operation, at least 1.
  [[nodiscard]] std::size_t threads() const noexcept;

  /// The pool of the library, which exists until the process ends.
  [[nodiscard]] static Workers& shared() noexcept;

  /// For the library: the threads of this process. Null if out of memory.
  [[nodiscard]] detail::Pool* pool() noexcept;

 private:
  std::size_t threads_;  // 0 is one per processor
  std::atomic<detail::Pool*> pool_ = nullptr;
};

/// Where an operation runs.
struct ComputeOptions {
  /// The threads of an operation on the host. Null is `Workers::shared()`.
  Workers* workers = nullptr;
  /// The queue of an operation on an OpenCL device (htensor/device/opencl.hpp). Null is the device's own.
  const OpenClQueue* queue = nullptr;
};

}  // namespace ht::inline v1
