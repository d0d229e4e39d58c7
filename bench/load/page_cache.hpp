// A file in the page cache, or out of it: brought about, and looked at.
#pragma once

#include <filesystem>

namespace ht::bench {

/// Takes the file out of the page cache, in some tries; whether at most 1 % of it is left there.
[[nodiscard]] bool make_cold(const std::filesystem::path& path, int tries = 10);

/// Brings all of it in.
void make_warm(const std::filesystem::path& path);

/// Whether all of it is there, or all but 1 %.
[[nodiscard]] bool is_warm(const std::filesystem::path& path);

}  // namespace ht::bench
