// Open a file, read its first and its last element, close it.
#pragma once

#include <filesystem>

namespace ht::bench {

struct Corners {
  float first = 0;
  float last = 0;
};

/// The library: validated header, typed tensor. A failure is NaN.
Corners open_by_htensor(const std::filesystem::path& path);
/// The limit: the bare system calls, which check nothing and know where the data lies.
Corners open_by_mmap(const std::filesystem::path& path);

}  // namespace ht::bench
