// Mapped memory that the fault handler knows, and what the handler may do with it.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/fault.hpp>
#include <optional>
#include <utility>

namespace ht::inline v1::fault {

struct Mapping;

/// What registered memory is a view of.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  /// The Error of the byte at `offset` of the memory.
  [[nodiscard]] virtual Error describe(std::uint64_t offset) const = 0;
  /// Maps the source's own pages again from `offset`, a multiple of a page, to the end. Returns whether that
  /// succeeded.
  [[nodiscard]] virtual bool restore(std::uint64_t offset) noexcept = 0;
};

/// Keeps memory registered while it lives.
class Range {
 public:
  Range() noexcept = default;
  /// The memory begins at a page; `source` has to outlive the Range. The policy is not `off`.
  [[nodiscard]] static Result<Range> add(Bytes memory, Source& source, FaultPolicy policy);

  Range(Range&& other) noexcept : mapping_(std::exchange(other.mapping_, nullptr)) {}
  Range& operator=(Range&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    return *this;
  }
  ~Range() {
    remove([] { return true; });
  }

  /// Unregisters the memory, waits for handlers that are about to replace pages of it, and calls `unmap`,
  /// under the lock of the registry. Where that returns false, the memory is registered as before, zeros
  /// included.
  bool remove(const std::function<bool()>& unmap);
  /// The first fault whose page was replaced by zeros.
  [[nodiscard]] std::optional<Error> first_fault() const;

 private:
  explicit Range(Mapping* mapping) noexcept : mapping_(mapping) {}
  Mapping* mapping_ = nullptr;
};

/// Reads a byte of every page, so that a section over the memory learns of pages that cannot be read.
void touch(Bytes memory) noexcept;

/// For threads of the library, before they read: the system ends a process that faults in a thread which
/// blocks SIGBUS, and a thread inherits what its creator blocks.
void unblock_signal() noexcept;

struct Pages {
  std::uintptr_t begin;
  std::uintptr_t end;
};

/// A fault while the signal handler treats it. The handler may run on any thread at any moment, so nothing
/// here locks, allocates or waits. While it lives, the mapping that holds the address stays mapped.
class Incident {
 public:
  explicit Incident(const void* address) noexcept;
  Incident(const Incident&) = delete;
  Incident& operator=(const Incident&) = delete;
  ~Incident();

  /// The pages, from that of the address on, to replace by zeros; all sections over them are told. Nullopt
  /// where the fault is the process's own.
  [[nodiscard]] std::optional<Pages> claim(std::uintptr_t page_bytes) noexcept;

 private:
  std::uintptr_t address_;
  Mapping* mapping_;
  std::uint64_t generation_ = 0;
};

// A forked child has one thread: sections and incidents of the others end there.
void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace ht::inline v1::fault
