// An open file once more, for reads or writes that go past the page cache.
#pragma once

#include <htensor/io/port.hpp>
#include <utility>

namespace ht::inline v1::io {

class DirectFile {
 public:
  /// Pieces are multiples of a page, so what needs more than that is not for here.
  static constexpr std::uint64_t page_bytes = 4096;

  /// None.
  DirectFile() noexcept = default;
  /// None where the system cannot.
  DirectFile(FileHandle file, Access access, Port& port) : port_(&port) {
    const auto alignment = port.direct_alignment(file);
    if (!alignment || alignment->both() == 0 || page_bytes % alignment->both() != 0) return;
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
    // What was written through it is brought to the disk, and asked about, by the other handle.
    if (handle_.value >= 0) static_cast<void>(port_->close(handle_));
  }

  [[nodiscard]] bool is_open() const noexcept { return handle_.value >= 0; }
  [[nodiscard]] FileHandle handle() const noexcept { return handle_; }
  /// Zeros where there is none.
  [[nodiscard]] const DirectAlignment& alignment() const noexcept { return alignment_; }

 private:
  Port* port_ = nullptr;
  FileHandle handle_;
  DirectAlignment alignment_;
};

}  // namespace ht::inline v1::io
