// A file system with a delay per request, like a network file system.
#pragma once

#include <filesystem>
#include <memory>

#include "bench/harness/child.hpp"

namespace ht::bench {

/// A FUSE mount with one file, which a child process serves.
class HighLatencyDisk {
 public:
  /// Returns null and prints the reason if the file system cannot be mounted.
  [[nodiscard]] static std::unique_ptr<HighLatencyDisk> mount(const std::filesystem::path& file,
                                                              const std::filesystem::path& folder);
  HighLatencyDisk(const HighLatencyDisk&) = delete;
  HighLatencyDisk& operator=(const HighLatencyDisk&) = delete;
  ~HighLatencyDisk();

  [[nodiscard]] std::filesystem::path path() const;

 private:
  HighLatencyDisk(const std::filesystem::path& file, const std::filesystem::path& folder);

  std::filesystem::path folder_;
  RunningChild server_;
};

/// Runs in the child process until it receives a signal.
int serve_high_latency_disk(const std::string& file, const std::string& folder);

}  // namespace ht::bench
