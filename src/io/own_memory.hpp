// Memory for what is read: aligned for direct reads, of large pages where the system has them, and given back
// part by part.
#pragma once

#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <memory>

namespace ht::inline v1::io {

class OwnMemory {
 public:
  /// Begins at a page. `out_of_memory`.
  [[nodiscard]] static Result<std::shared_ptr<OwnMemory>> allocate(std::uint64_t bytes, Port& port);

  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() = default;

  [[nodiscard]] MutableBytes bytes() const noexcept { return {memory_.get(), bytes_}; }
  /// Gives the whole pages of a part back to the system; nobody may look at it any more.
  void drop(Bytes part) noexcept;

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  OwnMemory(std::unique_ptr<std::byte, Free> memory, std::size_t bytes, Port& port) noexcept
      : memory_(std::move(memory)), bytes_(bytes), port_(port) {}

  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_;
  Port& port_;
};

/// A part of it that goes when nobody holds it, unless it is `shared` with other parts: then it goes with all
/// of the memory.
class OwnBlock {
 public:
  /// Without memory it has no bytes.
  OwnBlock(std::shared_ptr<OwnMemory> memory, Bytes bytes, bool shared) noexcept
      : memory_(std::move(memory)), bytes_(bytes), shared_(shared) {}
  OwnBlock(const OwnBlock&) = delete;
  OwnBlock& operator=(const OwnBlock&) = delete;
  ~OwnBlock() {
    // The last one gone frees all of it at once.
    if (memory_ && !shared_ && memory_.use_count() > 1) memory_->drop(bytes_);
  }

  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<OwnMemory> memory_;
  Bytes bytes_;
  bool shared_;
};

}  // namespace ht::inline v1::io
