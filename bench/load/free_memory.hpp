// Memory that is free, and whether the machine really has it.
#pragma once

#include <cstdint>

namespace ht::bench {

/// The host of a virtual machine takes free memory back, and returns it page by page and slowly when it is
/// touched. Allocates and touches `bytes`, at most nine tenths of the free memory, and frees it: the next
/// allocations get these pages, as on a machine of one's own.
void touch_free_memory(std::uint64_t bytes);

}  // namespace ht::bench
