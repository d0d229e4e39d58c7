// The tables of sections and of registered mappings.
//
// The signal handler reads both without a lock, so their blocks are never freed, and an entry is valid only
// while its sequence number does not change. Two counters synchronize the handler with other threads. Each
// side writes first and then reads what the other side wrote (all sequentially consistent):
//
// - `MappingSlot::users` counts handlers that use a mapping. A handler increments it, then reads the entry
//   again; unregistering changes the entry, then waits until the count is 0. So pages are replaced only while
//   their mapping is registered, never after they were unmapped.
// - `unsettled` counts handlers in progress and mappings with zeroed pages, which are pages that a handler
//   replaced by zeros and that were not restored since. A handler increments it, then
//   reads the sections; a section publishes or withdraws itself, then reads the count. So a handler sees
//   every open section, or the section sees the handler and restores the file's pages under the mutex.
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <new>
#include <thread>

#include "base/fault_registry.hpp"

namespace ht::inline v1::fault {
namespace {

constexpr std::uintptr_t no_address = UINTPTR_MAX;

}  // namespace

enum class Mark : std::uint8_t { none, being_written, written };

struct MappingSlot {
  std::atomic<std::uint64_t> sequence{0};  // odd while the entry changes; even values identify a registration
  std::atomic<std::uintptr_t> begin{no_address};  // `no_address` marks a free entry
  std::atomic<std::uintptr_t> end{0};
  std::atomic<FaultPolicy> policy{FaultPolicy::guarded};
  std::atomic<bool> is_writable{false};
  std::atomic<std::uint32_t> users{0};
  std::atomic<std::uintptr_t> first_zeroed_page{no_address};  // address of the lowest zeroed page
  std::atomic<std::uintptr_t> first_fault{no_address};        // an address
  Backing* backing = nullptr;                                 // guarded by `mutex`
};

// One range of an open section. Only the section's thread writes the range.
struct alignas(64) SectionSlot {
  std::atomic<std::uint64_t> sequence{0};  // odd while the section is open
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  // The first fault in the range.
  std::atomic<Mark> mark{Mark::none};
  std::atomic<std::uintptr_t> address{0};
  std::atomic<MappingSlot*> mapping{nullptr};
  std::atomic<std::uint64_t> mapping_sequence{0};  // `mapping->sequence` at the fault
  SectionSlot* next = nullptr;                     // of the same section, or of the same list of free slots
  const void* thread = nullptr;
};

namespace {

template <class Entry>
struct Block {
  std::array<Entry, 64> entries;
  std::atomic<Block*> next{nullptr};
};

template <class Entry, class Visit>
void for_each(Block<Entry>& first, const Visit& visit) {
  for (auto* block = &first; block != nullptr; block = block->next) {
    for (Entry& entry : block->entries) visit(entry);
  }
}

constinit Block<MappingSlot> mappings;
constinit Block<SectionSlot> sections;
constinit std::atomic<std::uint64_t> unsettled{0};
constinit std::mutex mutex;                    // the handler does not lock it
constinit SectionSlot* free_slots = nullptr;   // list for all threads, guarded by `mutex`
constinit bool first_block_is_in_use = false;  // its slots were added to `free_slots`
constinit thread_local SectionSlot* free_slots_of_thread = nullptr;

// Returns an address that is unique to this thread.
const void* this_thread() noexcept { return static_cast<const void*>(&free_slots_of_thread); }

void push(SectionSlot*& list, SectionSlot& slot) noexcept { slot.next = std::exchange(list, &slot); }

SectionSlot* pop(SectionSlot*& list) noexcept {
  return list != nullptr ? std::exchange(list, list->next) : nullptr;
}

// Moves the free slots of an exiting thread to `free_slots`.
struct ThreadExit {
  ThreadExit() noexcept = default;
  ThreadExit(const ThreadExit&) = delete;
  ThreadExit& operator=(const ThreadExit&) = delete;
  ~ThreadExit() {
    const std::lock_guard lock(mutex);
    while (auto* const slot = pop(free_slots_of_thread)) push(free_slots, *slot);
  }
};

// Takes a slot from `free_slots`. Null if out of memory.
SectionSlot* take_free_slot() noexcept {
  static thread_local const ThreadExit at_exit;
  const std::lock_guard lock(mutex);
  if (free_slots == nullptr) {
    auto* block = &sections;
    if (std::exchange(first_block_is_in_use, true)) {
      block = new (std::nothrow) Block<SectionSlot>;
      if (block == nullptr) return nullptr;
      block->next = sections.next.load();
      sections.next = block;
    }
    for (auto& slot : block->entries) push(free_slots, slot);
  }
  auto* const slot = pop(free_slots);
  slot->thread = this_thread();
  return slot;
}

// Lowers `first_zeroed_page` to the page. Counts the mapping as unsettled if it had no zeroed pages before.
void lower_first_zeroed_page(MappingSlot& mapping, std::uintptr_t page) noexcept {
  auto before = mapping.first_zeroed_page.load();
  while (page < before && !mapping.first_zeroed_page.compare_exchange_weak(before, page)) continue;
  if (before == no_address && page != no_address) ++unsettled;
}

// Replaces zeroed pages by the pages of the file. Waits for handlers in progress, which may still map zeros;
// a later handler lowers `first_zeroed_page` again. The caller holds the mutex.
bool restore(MappingSlot& mapping) noexcept {
  const auto first_page = mapping.first_zeroed_page.exchange(no_address);
  while (mapping.users != 0) std::this_thread::yield();
  const bool is_done = mapping.backing->restore(first_page - mapping.begin);
  if (!is_done) lower_first_zeroed_page(mapping, first_page);
  --unsettled;
  return is_done;
}

// Records the fault unless the range already has a fault.
void set_mark(SectionSlot& slot, std::uintptr_t address, MappingSlot& mapping,
              std::uint64_t mapping_sequence) noexcept {
  auto none = Mark::none;
  if (!slot.mark.compare_exchange_strong(none, Mark::being_written)) return;
  slot.address = address;
  slot.mapping = &mapping;
  slot.mapping_sequence = mapping_sequence;
  slot.mark = Mark::written;
}

// Restores the file's pages in the ranges of a section that begins or ends while `unsettled` is not 0. Waits
// until every handler that saw the section earlier has returned. If pages cannot be restored, a section that
// begins gets the fault.
void restore_ranges(SectionSlot* slots, bool begins) noexcept {
  const std::lock_guard lock(mutex);
  for_each(mappings, [&](MappingSlot& mapping) {
    for (auto* slot = slots; slot != nullptr; slot = slot->next) {
      const auto first_page = mapping.first_zeroed_page.load();
      if (first_page >= slot->end || slot->begin >= mapping.end || restore(mapping) || !begins) continue;
      set_mark(*slot, first_page, mapping, mapping.sequence);
    }
  });
}

bool is_registered(const SectionSlot& slot) {
  const std::lock_guard lock(mutex);
  bool found = false;
  for_each(mappings, [&](const MappingSlot& mapping) {
    found = found || (mapping.begin < slot.end && slot.begin < mapping.end);
  });
  return found;
}

Bytes bytes_of(const SectionSlot& slot) noexcept {
  const auto begin = slot.begin.load();
  return {reinterpret_cast<const std::byte*>(begin), slot.end - begin};  // NOLINT(*-no-int-to-ptr)
}

Error describe(const SectionSlot& slot) noexcept {
  try {
    const std::lock_guard lock(mutex);
    const MappingSlot& mapping = *slot.mapping.load();
    if (mapping.sequence == slot.mapping_sequence)
      return mapping.backing->describe(slot.address - mapping.begin);
    return Error(ErrorCode::read_failed, "mapped_pages_can_be_read",
                 "cannot read a page: its file was unmapped during the read")
        .with_hint("keep the model until all reads have returned");
  } catch (...) {  // for instance, `Backing::describe` is out of memory
    return Error(ErrorCode::read_failed, "mapped_pages_can_be_read", {});
  }
}

MappingSlot& free_mapping() {
  for (auto* block = &mappings;; block = block->next) {
    for (MappingSlot& mapping : block->entries) {
      if (mapping.begin == no_address) return mapping;
    }
    if (block->next == nullptr) block->next = new Block<MappingSlot>;
  }
}

void set(MappingSlot& mapping, std::uintptr_t begin, std::uintptr_t end) noexcept {
  ++mapping.sequence;
  mapping.begin = begin;
  mapping.end = end;
  ++mapping.sequence;
}

// Returns the range if its section is open, as one consistent read.
std::optional<Pages> range_of(const SectionSlot& slot) noexcept {
  const auto sequence = slot.sequence.load();
  const Pages range{slot.begin.load(std::memory_order_acquire), slot.end.load(std::memory_order_acquire)};
  // A section that begins between the two reads of `sequence` is ignored: it sees `unsettled` and restores
  // its pages itself.
  if (sequence % 2 == 0 || slot.sequence != sequence) return std::nullopt;
  return range;
}

bool is_covered(std::uintptr_t page, std::uintptr_t page_bytes) noexcept {
  bool found = false;
  for_each(sections, [&](const SectionSlot& slot) {
    const auto range = range_of(slot);
    found = found || (range && range->begin < page + page_bytes && page < range->end);
  });
  return found;
}

}  // namespace

Incident::Incident(const void* address) noexcept
    : address_(reinterpret_cast<std::uintptr_t>(address)), mapping_(nullptr) {
  ++unsettled;
  for_each(mappings, [&](MappingSlot& mapping) {
    const auto holds_address = [&] { return mapping.begin <= address_ && address_ < mapping.end; };
    if (mapping_ != nullptr || !holds_address()) return;
    ++mapping.users;
    // The entry may have been replaced before this handler was counted.
    mapping_sequence_ = mapping.sequence;
    const bool is_valid =
        mapping_sequence_ % 2 == 0 && holds_address() && mapping.sequence == mapping_sequence_;
    if (is_valid) {
      mapping_ = &mapping;
    } else {
      --mapping.users;
    }
  });
}

Incident::~Incident() {
  if (mapping_ != nullptr) --mapping_->users;
  --unsettled;
}

std::optional<Pages> Incident::claim(std::uintptr_t page_bytes) noexcept {
  if (mapping_ == nullptr) return std::nullopt;
  const auto page = address_ / page_bytes * page_bytes;
  const bool fills_all = mapping_->policy == FaultPolicy::zero_fill;
  if (!fills_all && !is_covered(page, page_bytes)) return std::nullopt;
  // `first_zeroed_page` is lowered before the loop below reads the sections. A section that begins after the
  // loop has read its slot then finds this page in `first_zeroed_page`, and restores the pages.
  lower_first_zeroed_page(*mapping_, page);
  const auto round_up = [&](std::uintptr_t at) { return (at + page_bytes - 1) / page_bytes * page_bytes; };
  Pages pages{page, round_up(mapping_->end)};
  bool is_claimed = false;
  for_each(sections, [&](SectionSlot& slot) {
    const auto range = range_of(slot);
    if (!range || range->end <= page || range->begin >= pages.end) return;
    if (range->begin >= page + page_bytes) {
      // The section does not contain the faulting page, so its pages are not replaced.
      pages.end = range->begin / page_bytes * page_bytes;
      return;
    }
    pages.end = std::min(pages.end, round_up(range->end));
    set_mark(slot, address_, *mapping_, mapping_sequence_);
    is_claimed = true;
  });
  if (!fills_all && !is_claimed) return std::nullopt;
  // Only the faulting page is replaced if no section reports the fault, because later pages may be readable,
  // or if the memory is writable, because its other pages may contain writes.
  pages.is_writable = mapping_->is_writable;
  if (!is_claimed || pages.is_writable) pages.end = page + page_bytes;
  auto none = no_address;
  mapping_->first_fault.compare_exchange_strong(none, address_);
  return pages;
}

Result<Registration> Registration::add(Bytes memory, Backing& backing, FaultPolicy policy, bool is_writable) {
  return without_bad_alloc([&]() -> Result<Registration> {
    const std::lock_guard lock(mutex);
    MappingSlot& mapping = free_mapping();
    const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
    mapping.backing = &backing;
    mapping.policy = policy;
    mapping.is_writable = is_writable;
    mapping.first_fault = no_address;
    set(mapping, begin, begin + memory.size());
    return Registration(&mapping);
  });
}

bool Registration::remove(const std::function<bool()>& unmap) {
  if (mapping_ == nullptr) return unmap();
  const std::lock_guard lock(mutex);
  const Pages pages{mapping_->begin, mapping_->end};
  set(*mapping_, no_address, 0);
  while (mapping_->users != 0) std::this_thread::yield();
  if (!unmap()) {
    set(*mapping_, pages.begin, pages.end);
    return false;
  }
  if (mapping_->first_zeroed_page.exchange(no_address) != no_address) --unsettled;
  std::exchange(mapping_, nullptr)->backing = nullptr;
  return true;
}

std::optional<Error> Registration::first_fault() const {
  if (mapping_ == nullptr) return std::nullopt;
  const std::lock_guard lock(mutex);
  const auto address = mapping_->first_fault.load();
  if (address == no_address) return std::nullopt;
  return mapping_->backing->describe(address - mapping_->begin);
}

void touch(Bytes memory) noexcept {
  constexpr std::size_t min_page_bytes = 4096;
  for (std::size_t at = 0; at < memory.size(); at += min_page_bytes) {
    static_cast<void>(*static_cast<const volatile std::byte*>(&memory[at]));
  }
  if (!memory.empty()) static_cast<void>(*static_cast<const volatile std::byte*>(&memory.back()));
}

bool unblock_signal() noexcept {
#ifdef SIGBUS
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGBUS);
  return pthread_sigmask(SIG_UNBLOCK, &signals, &before) == 0 && sigismember(&before, SIGBUS) == 1;
#else
  return false;
#endif
}

Section::Section(std::span<const Bytes> ranges) noexcept {
  for (const Bytes range : ranges) {
    if (range.empty()) continue;
    auto* slot = pop(free_slots_of_thread);
    if (slot == nullptr) slot = take_free_slot();
    if (slot == nullptr) {
      has_begun_ = false;
      return;
    }
    push(slots_, *slot);
    const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
    slot->begin.store(begin, std::memory_order_release);
    slot->end.store(begin + range.size(), std::memory_order_release);
    slot->mark.store(Mark::none, std::memory_order_release);
    slot->sequence.exchange(slot->sequence.load(std::memory_order_relaxed) + 1);
  }
  if (unsettled != 0) restore_ranges(slots_, true);
}

Section::~Section() {
  if (slots_ != nullptr) static_cast<void>(end());
}

std::optional<Error> Section::end(const Error* body_error) noexcept {
  if (body_error != nullptr && body_error->cause() == std::errc::bad_address) {
    for (auto* slot = slots_; slot != nullptr; slot = slot->next) {
      // Unregistered pages are not touched: a fault there would terminate the process.
      if (is_registered(*slot)) touch(bytes_of(*slot));
    }
  }
  for (auto* slot = slots_; slot != nullptr; slot = slot->next) {
    slot->sequence.exchange(slot->sequence.load(std::memory_order_relaxed) + 1);
  }
  if (unsettled != 0) restore_ranges(slots_, false);
  std::optional<Error> error;
  while (auto* const slot = pop(slots_)) {
    if (!error && slot->mark.load(std::memory_order_acquire) != Mark::none) error = describe(*slot);
    push(free_slots_of_thread, *slot);
  }
  return error;
}

void before_fork() { mutex.lock(); }
void after_fork_in_parent() { mutex.unlock(); }
void after_fork_in_child() {
  unsettled = 0;
  for_each(mappings, [](MappingSlot& mapping) {
    mapping.users = 0;
    if (mapping.first_zeroed_page != no_address) ++unsettled;
  });
  for_each(sections, [](SectionSlot& slot) {
    if (slot.sequence % 2 == 0 || slot.thread == this_thread()) return;
    ++slot.sequence;
    push(free_slots, slot);
  });
  mutex.unlock();
}

}  // namespace ht::inline v1::fault
