#include "bench/harness/free_memory.hpp"
#include "bench/harness/must.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <htensor/load/load.hpp>
#include <thread>
#include <vector>

namespace ht::bench {

void touch_free_memory(std::uint64_t requested) {
  const std::uint64_t max_bytes = value_of(available_memory()) / 10 * 9;
  const std::size_t bytes = std::min(requested, max_bytes);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  system_must(memory != MAP_FAILED, "mmap");
  static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));  // faster if huge pages are available
  {
    const std::size_t threads = std::max(1U, std::thread::hardware_concurrency());
    const std::size_t part = bytes / threads;
    std::vector<std::jthread> touching;
    touching.reserve(threads);
    for (std::size_t i = 0; i < threads; ++i) {
      touching.emplace_back([first = static_cast<volatile std::byte*>(memory) + i * part, part] {
        constexpr std::size_t page_bytes = 4096;
        for (std::size_t at = 0; at < part; at += page_bytes) first[at] = std::byte{1};
      });
    }
  }
  system_must(munmap(memory, bytes) == 0, "munmap");
}

}  // namespace ht::bench
