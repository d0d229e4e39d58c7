#include <htensor/base/fault.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>

#include "base/fault_registry.hpp"

namespace ht::inline v1::fault {
namespace {

constexpr std::uintptr_t nowhere = UINTPTR_MAX;

}  // namespace

struct Slot {
  // Free while it begins nowhere. The handler reads `begin` first, and it is written last.
  std::atomic<std::uintptr_t> begin{nowhere};
  std::atomic<std::uintptr_t> end{0};
  /// Where zeros begin that stand in for something.
  std::atomic<std::uintptr_t> zeros{nowhere};
  /// Tells who registers here now from who did before.
  std::atomic<std::uint64_t> generation{0};
  Source* source = nullptr;
};

namespace {

// Blocks are never freed: the handler may be looking at them.
struct Block {
  std::array<Slot, 64> slots;
  std::atomic<Block*> next{nullptr};
};

struct Event {
  std::atomic<std::uint64_t> number{0};  // counted from 1; written last
  std::atomic<Slot*> slot{nullptr};
  std::atomic<std::uint64_t> generation{0};
  std::atomic<std::uint64_t> offset{0};
  // Where there are zeros since.
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
};

constinit Block first_block;
// How often zeros were put somewhere, and up to which time all of them were replaced again.
constinit std::atomic<std::uint64_t> zeros_put{0};
constinit std::atomic<std::uint64_t> zeros_replaced{0};
constinit std::atomic<std::uint64_t> event_count{0};
constinit std::atomic<int> reports_under_way{0};
// After a fault the rest of its mapping has zeros, so there are few faults; older ones may be forgotten.
constinit std::array<Event, 64> events;
constinit std::mutex mutex;  // for all but the handler

void publish(std::uint64_t number, Slot& slot, std::uintptr_t address, std::uintptr_t zeros,
             std::uintptr_t end) noexcept {
  Event& event = events[number % events.size()];
  event.slot = &slot;
  event.generation = slot.generation.load();
  event.offset = address - slot.begin;
  event.begin = zeros;
  event.end = end;
  event.number = number;
}

// Puts back what was replaced by zeros, so that a section that touches it is told by a fault of its own.
void restore_all() noexcept {
  const std::lock_guard lock(mutex);
  const std::uint64_t put = zeros_put;
  if (put == zeros_replaced) return;
  bool all = true;
  for (Block* block = &first_block; block != nullptr; block = block->next) {
    for (Slot& slot : block->slots) {
      const auto zeros = slot.zeros.exchange(nowhere);
      if (zeros == nowhere || slot.begin == nowhere) continue;
      if (slot.source->restore(zeros - slot.begin)) continue;
      // It is not known then who reads zeros, so all are told.
      slot.zeros = zeros;
      all = false;
      publish(event_count.fetch_add(1) + 1, slot, zeros, zeros, slot.end);
    }
  }
  if (all) zeros_replaced = put;
}

// The event of that number, once whoever writes it is done; nothing where a later one has its place.
const Event* wait_for(std::uint64_t number) noexcept {
  const Event& event = events[number % events.size()];
  while (event.number < number) std::this_thread::yield();
  return event.number == number ? &event : nullptr;
}

bool concerns(const Event& event, std::span<const Bytes> touched) noexcept {
  if (event.begin == event.end) return false;  // a false alarm
  return touched.empty() || std::ranges::any_of(touched, [&](Bytes memory) {
           const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
           return begin < event.end && event.begin < begin + memory.size();
         });
}

std::optional<Error> describe(const Event& event) {
  const std::lock_guard lock(mutex);
  const Slot& slot = *event.slot.load();
  if (slot.generation == event.generation && slot.begin != nowhere) {
    return slot.source->describe(event.offset);
  }
  return Error(ErrorCode::read_failed, "mapped_pages_can_be_read",
               "cannot read a page of a mapped file, which has been unmapped since");
}

Slot* free_slot() {
  for (Block* block = &first_block;; block = block->next) {
    for (Slot& slot : block->slots) {
      if (slot.begin == nowhere) return &slot;
    }
    if (block->next == nullptr) block->next = new Block;
  }
}

}  // namespace

std::optional<Hit> find(const void* address) noexcept {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  for (Block* block = &first_block; block != nullptr; block = block->next) {
    for (Slot& slot : block->slots) {
      if (slot.begin <= wanted && wanted < slot.end) return Hit{&slot, slot.end};
    }
  }
  return std::nullopt;
}

Report::Report(const Hit& hit) noexcept : hit_(hit) {
  ++reports_under_way;
  number_ = event_count.fetch_add(1) + 1;
}

void Report::set_zeros(const void* address, std::uintptr_t page) noexcept {
  address_ = reinterpret_cast<std::uintptr_t>(address);
  page_ = page;
  auto zeros = hit_.slot->zeros.load();
  while (page < zeros && !hit_.slot->zeros.compare_exchange_weak(zeros, page)) continue;
  ++zeros_put;
}

Report::~Report() {
  publish(number_, *hit_.slot, address_, page_, page_ == 0 ? 0 : hit_.end);
  --reports_under_way;
}

Result<Range> Range::add(Bytes memory, Source& source) {
  return without_bad_alloc([&]() -> Result<Range> {
    const std::lock_guard lock(mutex);
    Slot* const slot = free_slot();
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    slot->source = &source;
    slot->zeros = nowhere;
    ++slot->generation;
    slot->end = begin + memory.size();
    slot->begin = begin;
    return Range(slot);
  });
}

Range::~Range() {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(mutex);
  auto* const slot = static_cast<Slot*>(slot_);
  slot->begin = nowhere;
  slot->end = 0;
  slot->source = nullptr;
}

void touch(Bytes memory) noexcept {
  constexpr std::size_t smallest_page = 4096;
  for (std::size_t at = 0; at < memory.size(); at += smallest_page) {
    static_cast<void>(*static_cast<const volatile std::byte*>(&memory[at]));
  }
  if (!memory.empty()) static_cast<void>(*static_cast<const volatile std::byte*>(&memory.back()));
}

// What is reported after this is told; what was before is put back. One that is just being made may be
// neither, so it is waited for: its zeros may come any moment.
Section::Section(std::span<const Bytes> touched) noexcept : touched_(touched), begin_(event_count) {
  while (reports_under_way != 0) std::this_thread::yield();
  if (zeros_put != zeros_replaced) restore_all();
}

std::optional<Error> Section::error() const {
  const std::uint64_t end = event_count;
  if (end == begin_) return std::nullopt;
  bool forgotten = false;
  for (std::uint64_t number = begin_ + 1; number <= end; ++number) {
    const Event* const event = wait_for(number);
    if (event == nullptr) {
      forgotten = true;
      continue;
    }
    if (concerns(*event, touched_)) return describe(*event);
  }
  if (!forgotten) return std::nullopt;
  return Error(ErrorCode::read_failed, "mapped_pages_can_be_read",
               "cannot read many pages of mapped files, possibly of this one");
}

}  // namespace ht::inline v1::fault
