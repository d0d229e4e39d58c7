#include "base/memory_hints.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace ht::inline v1 {

void advise_huge_pages(MutableBytes memory) noexcept {
#if defined(__linux__)
  static_cast<void>(::madvise(memory.data(), memory.size(), MADV_HUGEPAGE));
#else
  static_cast<void>(memory);
#endif
}

}  // namespace ht::inline v1
