// Registry of mapped memory for the fault handler, and the operations of the handler.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/fault.hpp>
#include <optional>
#include <utility>

namespace ht::inline v1::fault {

struct MappingSlot;

/// Restores and describes the pages of registered memory.
class Backing {
 public:
  Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  virtual ~Backing() = default;

  /// Returns the Error for a fault at `offset` of the memory.
  [[nodiscard]] virtual Error describe(std::uint64_t offset) const = 0;
  /// Maps the pages again from `offset`, a multiple of the page size, to the end. Returns whether it
  /// succeeded; false for private pages, which may have been written to.
  [[nodiscard]] virtual bool restore(std::uint64_t offset) noexcept = 0;
};

/// Keeps mapped memory registered while the object exists.
class Registration {
 public:
  Registration() noexcept = default;
  /// Registers page-aligned memory. `backing` must outlive the Registration. The policy must not be `off`. In
  /// writable memory, a fault replaces only the faulting page, by a writable page.
  [[nodiscard]] static Result<Registration> add(Bytes memory, Backing& backing, FaultPolicy policy,
                                                bool is_writable = false);

  Registration(Registration&& other) noexcept : mapping_(std::exchange(other.mapping_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    return *this;
  }
  ~Registration() {
    remove([] { return true; });
  }

  /// Unregisters the memory, waits for handlers that may replace its pages, and calls `unmap` under the
  /// registry's lock. If `unmap` returns false, the memory is registered again, and pages that were
  /// replaced by zeros stay replaced.
  bool remove(const std::function<bool()>& unmap);
  /// The first fault whose page was replaced by zeros.
  [[nodiscard]] std::optional<Error> first_fault() const;

 private:
  explicit Registration(MappingSlot* mapping) noexcept : mapping_(mapping) {}
  MappingSlot* mapping_ = nullptr;
};

/// Reads a byte of every page, so that a section over the memory records unreadable pages.
void touch(Bytes memory) noexcept;

/// Unblocks SIGBUS on the calling thread; the library's threads call it before they read. A fault on a thread
/// that blocks SIGBUS terminates the process, and threads inherit their creator's mask. Returns whether the
/// thread blocked SIGBUS.
bool unblock_signal() noexcept;

/// The addresses of adjacent pages.
struct Pages {
  std::uintptr_t begin;
  std::uintptr_t end;
  bool is_writable = false;
};

/// A fault that the signal handler processes. A handler may run on any thread at any time, so no function of
/// this class locks, allocates or waits. While the Incident exists, the mapping that contains the address
/// stays mapped.
class Incident {
 public:
  explicit Incident(const void* address) noexcept;
  Incident(const Incident&) = delete;
  Incident& operator=(const Incident&) = delete;
  ~Incident();

  /// Returns the pages to replace by zeros, from the faulting page on, and marks the fault in all sections
  /// over the faulting page. nullopt if the address is not in registered memory, or if the policy of the
  /// memory is `guarded` and no section covers the faulting page.
  [[nodiscard]] std::optional<Pages> claim(std::uintptr_t page_bytes) noexcept;

 private:
  std::uintptr_t address_;
  MappingSlot* mapping_;
  std::uint64_t mapping_sequence_ = 0;
};

// Handlers for pthread_atfork. A forked child has one thread: sections and incidents of other threads end in
// the child.
void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace ht::inline v1::fault
