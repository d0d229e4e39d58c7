// A second handle of an open file, for direct reads or writes, which bypass the page cache.
#pragma once

#include <utility>

#include "io/port/port.hpp"

namespace ht::inline v1::io {

class DirectFile {
 public:
  /// The largest supported alignment. A file that needs a larger one is not opened.
  static constexpr std::uint64_t max_alignment = 4096;

  /// Not open.
  DirectFile() noexcept = default;
  /// Stays closed if the system or the file does not support direct access.
  DirectFile(FileHandle file, Access access, Port& port) : port_(&port) {
    const auto alignment = port.direct_alignment(file);
    if (!alignment || alignment->both() == 0 || max_alignment % alignment->both() != 0) return;
    if (const auto handle = port.reopen_direct(file, access)) {
      handle_ = *handle;
      alignment_ = *alignment;
    }
  }
  DirectFile(DirectFile&& other) noexcept
      : port_(other.port_),
        handle_(std::exchange(other.handle_, {})),
        alignment_(std::exchange(other.alignment_, {})) {}
  DirectFile& operator=(DirectFile&&) = delete;
  ~DirectFile() {
    // Errors of close are ignored: the original handle is used for fsync, which reports write errors.
    if (handle_.value >= 0) static_cast<void>(port_->close(handle_));
  }

  [[nodiscard]] bool is_open() const noexcept { return handle_.value >= 0; }
  [[nodiscard]] FileHandle handle() const noexcept { return handle_; }
  /// Zeros if the file is not open.
  [[nodiscard]] const DirectAlignment& alignment() const noexcept { return alignment_; }

 private:
  Port* port_ = nullptr;
  FileHandle handle_;
  DirectAlignment alignment_;
};

}  // namespace ht::inline v1::io
