// The handler of faults in mapped files.
#pragma once

#include <cstdint>

namespace ht::inline v1::io {

/// Atomically replaces pages. Returns false on failure, with the cause in `errno`. Makes the raw system call:
/// the function runs in a signal handler and while other threads read the pages, and a sanitizer that
/// intercepts `mmap` would report the replacement as a write.
bool map_fixed(std::uintptr_t address, std::uint64_t bytes, int protection, int flags, int file,
               std::int64_t offset) noexcept;

/// The library's SIGBUS handler, installed while a FaultHandler exists. `fault::Incident::claim` returns the
/// pages that the handler replaces with pages of zeros. The handler passes other faults to the earlier
/// handler. The destructor of the last FaultHandler restores the earlier handler, unless the program has
/// replaced the library's handler by its own, which may call the library's handler. If the program has set
/// SIG_DFL or SIG_IGN, the constructor of the next FaultHandler installs the library's handler again.
class FaultHandler {
 public:
  /// Throws std::bad_alloc if out of memory, because a mapping without the handler would be unguarded.
  FaultHandler();
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;
  ~FaultHandler();
};

}  // namespace ht::inline v1::io
