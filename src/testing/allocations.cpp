#include "testing/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> count{0};
std::atomic<std::size_t> live_bytes{0};
std::atomic<std::size_t> peak_bytes{0};
constexpr int unlimited = -1;
thread_local int allocations_left = unlimited;
std::atomic<int> shared_allocations_left{unlimited};
std::atomic<std::size_t> other_failures{0};
thread_local bool has_limit = false;

// Counts an allocation and returns whether the limits permit it.
bool permit_allocation() noexcept {
  ++count;
  if (allocations_left == 0) return false;
  if (allocations_left > 0) --allocations_left;
  int left = shared_allocations_left;
  while (left > 0 && !shared_allocations_left.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 0 && !has_limit) ++other_failures;
  return left != 0;
}

// The size of each block is stored in this many bytes before the block.
constexpr std::size_t header_bytes = alignof(std::max_align_t);

void* allocate(std::size_t bytes) noexcept {
  if (!permit_allocation()) return nullptr;
  auto* const block = static_cast<std::byte*>(std::malloc(bytes + header_bytes));
  if (block == nullptr) return nullptr;
  *reinterpret_cast<std::size_t*>(block) = bytes;
  const std::size_t live = live_bytes += bytes;
  for (std::size_t peak = peak_bytes; peak < live && !peak_bytes.compare_exchange_weak(peak, live);) {
  }
  return block + header_bytes;
}

void* allocate_or_throw(std::size_t bytes) {
  if (void* memory = allocate(bytes)) return memory;
  throw std::bad_alloc();
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  auto* const block = static_cast<std::byte*>(memory) - header_bytes;
  live_bytes -= *reinterpret_cast<std::size_t*>(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept { return allocate(bytes); }
// Aligned memory is limited as well, but not measured.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (!permit_allocation()) throw std::bad_alloc();
  const auto multiple = static_cast<std::size_t>(alignment);
  void* const memory = std::aligned_alloc(multiple, (bytes + multiple - 1) / multiple * multiple);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { release(memory); }

namespace ht::testing {

std::size_t allocation_count() noexcept { return count; }

PeakMemory::PeakMemory() noexcept : start_(live_bytes) { peak_bytes = start_; }

std::size_t PeakMemory::bytes() const noexcept { return peak_bytes - start_; }

AllocationLimit::AllocationLimit(int allowed, Threads threads) noexcept {
  has_limit = true;
  other_failures = 0;
  if (threads == Threads::all) {
    shared_allocations_left = allowed;
  } else {
    allocations_left = allowed;
  }
}

AllocationLimit::~AllocationLimit() {
  allocations_left = unlimited;
  shared_allocations_left = unlimited;
  has_limit = false;
}

int AllocationLimit::left() const noexcept { return allocations_left; }

std::size_t AllocationLimit::failures_of_other_threads() const noexcept { return other_failures; }

}  // namespace ht::testing
