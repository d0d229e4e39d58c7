// A hint for kernels that read long runs of memory once.
#pragma once

#include <cstdint>

namespace ht::inline v1 {

/// Bytes between the element that a kernel reads and the line that it prefetches: two pages, because the
/// prefetchers of processors stop at the end of a page.
inline constexpr std::uintptr_t prefetch_distance = 8192;

/// Prefetches the cache line that lies `prefetch_distance` after `reading`. Kernels that compute little per
/// byte overlap their work with memory this way. The line may lie outside of any object: a prefetch never
/// faults.
inline void prefetch_after(const void* reading) noexcept {
#if defined(__GNUC__)
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is only a hint.
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(reading) + prefetch_distance));
#else
  static_cast<void>(reading);
#endif
}

}  // namespace ht::inline v1
