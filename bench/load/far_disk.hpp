// A disk that is far away: a file system that takes its time for each request, as one over a network does.
#pragma once

#include <filesystem>
#include <memory>

#include "bench/load/child.hpp"

namespace ht::bench {

/// Serves one file from a folder of its own, in a process of its own.
class FarDisk {
 public:
  /// Nothing, with a line that says why, where such a file system cannot be had.
  [[nodiscard]] static std::unique_ptr<FarDisk> mount(const std::filesystem::path& file,
                                                      const std::filesystem::path& folder);
  FarDisk(const FarDisk&) = delete;
  FarDisk& operator=(const FarDisk&) = delete;
  ~FarDisk();

  [[nodiscard]] std::filesystem::path path() const;

 private:
  FarDisk(const std::filesystem::path& file, const std::filesystem::path& folder);

  std::filesystem::path folder_;
  RunningChild server_;
};

/// What that process does, until it is told to end.
int serve_far_disk(const std::string& file, const std::string& folder);

}  // namespace ht::bench
