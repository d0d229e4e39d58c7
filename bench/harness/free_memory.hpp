// Makes free memory resident on the host of a virtual machine.
#pragma once

#include <cstdint>

namespace ht::bench {

/// The host of a virtual machine reclaims free memory and returns it slowly, page by page, on access. The
/// function allocates and touches `bytes`, at most nine tenths of the available memory, and frees them. Later
/// allocations get these pages, as on a physical machine.
void touch_free_memory(std::uint64_t bytes);

}  // namespace ht::bench
