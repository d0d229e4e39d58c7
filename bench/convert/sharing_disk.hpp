// A disk whose file system shares blocks, in a file of its own: for users who may mount one.
#pragma once

#include <filesystem>
#include <memory>

namespace ht::bench {

class SharingDisk {
 public:
  /// With room for so many bytes. Nothing where it cannot be had; the reason is printed.
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
