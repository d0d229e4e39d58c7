// Options that operations share: threads (`Workers`, `ComputeOptions`), cancellation and progress
// (`WorkOptions`, `Progress`), and existing targets (`IfExists`).
//
//   ht::Workers two(2);                                       // a pool of two threads
//   const auto y = HT_TRY(ht::softmax(x, {.workers = &two}));
//
//   std::stop_source cancel;                                  // request_stop() works from any thread
//   const auto show = [](const ht::Progress& p) { draw(p.done_bytes, p.total_bytes); };
//   const ht::WorkOptions work{.stop = cancel.get_token(), .on_progress = show};
//   const auto s = HT_TRY(ht::statistics(x, work));           // `cancelled` after a stop request
//
// Ownership: options are values and own nothing that they point to. The caller keeps `Workers`, the OpenCL
// queue and everything that a callback refers to alive until the operation has returned. `Workers` must
// outlive all operations that use it; its destructor joins its threads.
//
// Threads: many threads may use the same `Workers` at once, and operations may nest. If no other thread is
// free, the calling thread does the work itself, so nested calls do not deadlock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

namespace ht::inline v1 {

class OpenClQueue;

namespace detail {
class Pool;
}

/// A pool of threads. The library computes on one shared pool with one thread per processor. Its threads
/// start on first use, sleep while idle and are never joined. A program that needs fewer or separate threads
/// creates its own `Workers` and passes a pointer in the options of an operation.
///
/// Fork: threads do not exist in a forked child. `Workers`, including the shared pool, starts new threads
/// there at the next use.
///
/// Results of the library's own kernels never depend on the number of threads.
class Workers {
 public:
  /// Uses at most `threads` threads; 0 is one per processor. Threads start on first use.
  constexpr explicit Workers(std::size_t threads = 0) noexcept : threads_(threads) {}
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  /// Joins the threads of this process. A forked child does not join the threads of its parent, which do not
  /// exist there.
  ~Workers();

  /// The maximum number of threads of one operation, at least 1.
  [[nodiscard]] std::size_t threads() const noexcept;

  /// The shared pool of the library, which exists until the process ends.
  [[nodiscard]] static Workers& shared() noexcept;

  /// For internal use: the pool of threads in this process. Null if out of memory.
  [[nodiscard]] detail::Pool* pool() noexcept;

 private:
  std::size_t threads_;  // 0 is one per processor
  std::atomic<detail::Pool*> pool_ = nullptr;
};

/// Where an operation runs.
struct ComputeOptions {
  /// The threads of an operation on the host. Null is `Workers::shared()`.
  Workers* workers = nullptr;
  /// The queue of an operation on an OpenCL device (htensor/device/transfer.hpp). Null is the
  /// default queue of the device.
  const OpenClQueue* queue = nullptr;
};

/// The CPU features that the library's kernels use beyond the baseline of the build, separated by spaces:
/// "avx2 vpclmulqdq". Empty if there are none. A NUL follows the text.
[[nodiscard]] std::string_view cpu_features() noexcept;

/// The behaviour of a write if its target exists: `fail` returns `already_exists`.
enum class IfExists : std::uint8_t { fail, replace };

/// The progress of a long operation: the bytes that are done, the bytes of the whole operation, and the time
/// since its start.
struct Progress {
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::chrono::nanoseconds elapsed{};
};

/// Cancellation and progress of a long operation. The default neither stops nor reports. An exception that
/// the callback throws propagates to the caller.
struct WorkOptions {
  /// A stop request ends the operation with `cancelled`, after the pieces of work that are in progress.
  std::stop_token stop{};
  /// Called repeatedly on the thread that runs the operation, and once more when all work is done.
  std::function<void(const Progress&)> on_progress{};
};

}  // namespace ht::inline v1
