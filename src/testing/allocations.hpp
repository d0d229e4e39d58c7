// The memory that operator new hands out, counted and limited. A test that links ht_allocations has these
// operators in place of the library's, so it is a program of its own.
#pragma once

#include <cstddef>

namespace ht::testing {

/// Allocations so far, by all threads.
[[nodiscard]] std::size_t allocation_count() noexcept;

/// Measures the memory that is allocated while it lives, by all threads. One at a time.
class PeakMemory {
 public:
  PeakMemory() noexcept;
  /// The most bytes that were allocated at any time since the start, beyond the bytes allocated then.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  std::size_t start_;
};

/// Lets this many allocations of this thread succeed and fails the next ones, until the end of its scope.
class AllocationLimit {
 public:
  explicit AllocationLimit(int allowed) noexcept;
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;
  ~AllocationLimit();
};

}  // namespace ht::testing
