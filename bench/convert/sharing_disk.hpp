// A file system that shares blocks, in an image file. Mounting it requires privileges.
#pragma once

#include <filesystem>
#include <memory>

namespace ht::bench {

class SharingDisk {
 public:
  /// Mounts a file system with space for `bytes`. Returns null and prints the reason on failure.
  [[nodiscard]] static std::unique_ptr<SharingDisk> mount(const std::filesystem::path& folder,
                                                          std::uint64_t bytes);

  explicit SharingDisk(std::filesystem::path at) : at_(std::move(at)) {}
  SharingDisk(const SharingDisk&) = delete;
  SharingDisk& operator=(const SharingDisk&) = delete;
  ~SharingDisk();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return at_; }

 private:
  std::filesystem::path at_;
};

}  // namespace ht::bench
