// A file system that shares blocks, in an image file. Mounting it requires privileges.
#pragma once

#include <filesystem>
#include <memory>

namespace ht::bench {

class ReflinkDisk {
 public:
  /// Mounts a file system with space for `bytes`. Returns null and prints the reason on failure.
  [[nodiscard]] static std::unique_ptr<ReflinkDisk> mount(const std::filesystem::path& folder,
                                                          std::uint64_t bytes);

  explicit ReflinkDisk(std::filesystem::path at) : at_(std::move(at)) {}
  ReflinkDisk(const ReflinkDisk&) = delete;
  ReflinkDisk& operator=(const ReflinkDisk&) = delete;
  ~ReflinkDisk();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return at_; }

 private:
  std::filesystem::path at_;
};

}  // namespace ht::bench
