// Prepares files for tests of the page cache.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "io/port/port.hpp"

namespace ht::testing {

/// Writes the dirty pages of a file to the disk: dirty pages cannot leave the page cache.
inline void sync_file(const std::filesystem::path& path) {
  auto& port = io::system_port();
  const auto file = port.open(path).value();
  EXPECT_TRUE(port.sync(file));
  EXPECT_TRUE(port.close(file));
}

/// Whether the file system is in memory, such as tmpfs: all pages of a file are then always cached.
inline bool is_in_memory(const std::filesystem::path& path) {
  auto& port = io::system_port();
  const auto file = port.open(path).value();
  const auto system = port.file_system(file).value();
  EXPECT_TRUE(port.close(file));
  return system == io::FileSystem::memory;
}

}  // namespace ht::testing
