// Evicts a file from the page cache or loads it, and checks the result.
#pragma once

#include <filesystem>

namespace ht::bench {

/// Evicts the file from the page cache, with retries. Returns true if at most 1 % of the file is still
/// cached.
[[nodiscard]] bool make_cold(const std::filesystem::path& path, int tries = 10);

/// Tries to evict the file. If that fails, prints a note that nothing cold can be measured with it.
void check_eviction(const std::filesystem::path& path);

/// Reads the whole file into the page cache.
void make_warm(const std::filesystem::path& path);

/// Returns true if at least 99 % of the file is in the page cache.
[[nodiscard]] bool is_warm(const std::filesystem::path& path);

}  // namespace ht::bench
