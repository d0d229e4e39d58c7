// Pages put over others, in one step.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ht::inline v1::io {

/// Whether it could be done; `errno` says why not. By the call's number and not by its name: it is made while
/// others read there, which is what it is for, and in a signal handler; a sanitizer that stands behind the
/// name takes it for a write and keeps books of its own.
inline bool map_fixed(std::uintptr_t address, std::uint64_t bytes, int flags, int file,
                      std::int64_t offset) noexcept {
  return ::syscall(SYS_mmap, address, bytes, PROT_READ, flags | MAP_FIXED, file, offset) != -1;
}

}  // namespace ht::inline v1::io
