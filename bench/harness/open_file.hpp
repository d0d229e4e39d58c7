// RAII types for a descriptor and a mapping, for contenders that use system calls directly.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <htensor/base/bytes.hpp>

#include "bench/harness/must.hpp"

namespace ht::bench {

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path, int flags = 0)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)) {
    system_must(fd_ >= 0, path.string());
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(fd_); }

  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

class Mapping {
 public:
  Mapping(const OpenFile& file, std::uint64_t bytes, int flags = 0)
      : Mapping(bytes, PROT_READ, MAP_SHARED | flags, file.fd()) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { ::munmap(data_, bytes_); }

  /// Anonymous memory.
  static Mapping anonymous(std::uint64_t bytes) {
    return {bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1};
  }

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

 private:
  Mapping(std::uint64_t bytes, int protection, int flags, int fd)
      : bytes_(static_cast<std::size_t>(bytes)), data_(::mmap(nullptr, bytes_, protection, flags, fd, 0)) {
    system_must(data_ != MAP_FAILED, "mmap");
  }

  std::size_t bytes_;
  void* data_;
};

}  // namespace ht::bench
