// A compact encoding of the contents of a JSON text: numbers and strings in sequence.
//
// A JSON parser needs several times the size of its text in memory, and a catalog may need as much again. So
// a reader packs the contents, frees the parser, and only then builds the catalog: parser and catalog never
// exist at the same time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <htensor/base/bytes.hpp>
#include <memory>
#include <string_view>

namespace ht::inline v1 {

struct PackedText {
  std::unique_ptr<std::byte[]> memory;
  std::size_t size = 0;

  [[nodiscard]] Bytes bytes() const noexcept { return {memory.get(), size}; }
};

class Packer {
 public:
  /// Allocates memory for the contents of a JSON text of this size. A number takes at most as many bytes as
  /// its digits. A short string and its length fit in the space of the string with its quotes and comma; the
  /// extra room is for long strings.
  explicit Packer(std::size_t text_bytes)
      : room_(text_bytes + text_bytes / 64 + 64), memory_(new std::byte[room_]) {}

  /// Writes a varint: seven bits per byte, the lowest first.
  void number(std::uint64_t value) {
    make_room(10);
    for (; value >= high_bit; value /= high_bit)
      memory_[size_++] = static_cast<std::byte>(value % high_bit | high_bit);
    memory_[size_++] = static_cast<std::byte>(value);
  }
  /// Writes the text without its length, which the reader must know from an earlier number.
  void text(std::string_view text) {
    make_room(text.size());
    std::ranges::copy(bytes_of(text), memory_.get() + size_);
    size_ += text.size();
  }

  [[nodiscard]] PackedText finish() && noexcept { return {std::move(memory_), size_}; }

 private:
  void make_room(std::size_t bytes) {
    if (room_ - size_ >= bytes) return;
    room_ += std::max(bytes, room_ / 2);
    std::unique_ptr<std::byte[]> larger(new std::byte[room_]);
    std::copy_n(memory_.get(), size_, larger.get());
    memory_ = std::move(larger);
  }

  static constexpr std::uint64_t high_bit = 128;
  std::size_t room_;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> memory_;
};

/// Reads the output of a Packer, in the order in which it was written.
class Unpacker {
 public:
  explicit Unpacker(Bytes bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] bool done() const noexcept { return at_ == bytes_.size(); }
  [[nodiscard]] std::uint64_t number() noexcept {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(bytes_[at_++]);
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }
  /// The text is valid as long as the packed bytes.
  [[nodiscard]] std::string_view text(std::uint64_t length) noexcept {
    const Bytes text = bytes_.subspan(at_, static_cast<std::size_t>(length));
    at_ += text.size();
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

}  // namespace ht::inline v1
