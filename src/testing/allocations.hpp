// Counts and limits allocations by operator new. Linking ht_allocations replaces the operators of the whole
// program, so a test that links it is a separate program.
#pragma once

#include <cstddef>

namespace ht::testing {

/// The number of allocations so far, by all threads.
[[nodiscard]] std::size_t allocation_count() noexcept;

/// Measures the memory allocated during its lifetime, by all threads. Only one may exist at a time.
class PeakMemory {
 public:
  PeakMemory() noexcept;
  /// The peak of allocated bytes since construction, minus the bytes allocated at construction.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  std::size_t start_;
};

/// Lets `allowed` allocations succeed and later ones fail while the object exists. Counts the allocations of
/// the calling thread, or of all threads together. Only one may exist at a time.
class AllocationLimit {
 public:
  enum class Threads { calling, all };
  explicit AllocationLimit(int allowed, Threads threads = Threads::calling) noexcept;
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
  ~AllocationLimit();
  /// The number of allocations of the calling thread that still succeed; -1 if the limit is for all threads.
  [[nodiscard]] int left() const noexcept;
  /// The number of allocations that failed on other threads.
  [[nodiscard]] std::size_t failures_of_other_threads() const noexcept;
};

}  // namespace ht::testing
