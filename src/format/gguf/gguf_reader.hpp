// A header that is read from its first byte on, as far as it is seen.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/parse.hpp>
#include <optional>
#include <string_view>

#include "format/common.hpp"

namespace ht::inline v1::format_gguf {

/// ggml's limits; nothing that its readers refuse is written by anybody.
inline constexpr std::uint64_t max_text_bytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t max_array_elements = std::uint64_t{1} << 30;
/// Of a string: its length.
inline constexpr std::uint64_t least_text_bytes = 8;

/// The byte order that the four bytes of a version tell: none that is known reads as another one from behind.
[[nodiscard]] inline ByteOrder order_of_version(Bytes version) noexcept {
  const auto little = load_le<std::uint32_t>(version);
  return little != 0 && (little & 0xFFFF) == 0 ? ByteOrder::big : ByteOrder::little;
}

/// The number in the first bytes, which are in that order.
template <WireNumber T>
[[nodiscard]] T load_in(ByteOrder order, Bytes bytes) noexcept {
  return order == ByteOrder::big ? load_be<T>(bytes) : load_le<T>(bytes);
}

/// Hands out what follows, or stops: then `stopped` has why. That the file ends too early or the header is
/// too large is told by the file's length and not by how much of it is seen, so that whoever sees less of it
/// gets the same answer in the end.
class Reader {
 public:
  Reader(Bytes seen, std::uint64_t file_bytes, std::uint64_t max_header_bytes) noexcept
      : seen_(seen.first(static_cast<std::size_t>(std::min<std::uint64_t>(seen.size(), file_bytes)))),
        file_bytes_(file_bytes),
        max_header_bytes_(max_header_bytes) {}

  void set_order(ByteOrder order) noexcept { order_ = order; }
  [[nodiscard]] ByteOrder order() const noexcept { return order_; }

  [[nodiscard]] std::uint64_t at() const noexcept { return at_; }
  /// How much of the file follows, and how much of that is seen.
  [[nodiscard]] std::uint64_t left() const noexcept { return file_bytes_ - at_; }
  [[nodiscard]] std::size_t seen_left() const noexcept { return seen_.size() - at_; }
  /// What was read from `begin` on.
  [[nodiscard]] Bytes since(std::size_t begin) const noexcept { return seen_.subspan(begin, at_ - begin); }
  void go_back(std::size_t begin) noexcept { at_ = begin; }

  /// The next bytes. `what` names them in the error.
  [[nodiscard]] std::optional<Bytes> take(std::uint64_t bytes, std::string_view what);

  template <WireNumber T>
  [[nodiscard]] std::optional<T> number(std::string_view what) {
    const auto bytes = take(sizeof(T), what);
    if (!bytes) return std::nullopt;
    return load_in<T>(order_, *bytes);
  }

  [[nodiscard]] std::optional<std::string_view> text(std::string_view what);
  [[nodiscard]] bool skip_texts(std::uint64_t count, std::string_view what);

  /// Whether the file can have `count` of what has `least` bytes or more each; else it stops.
  [[nodiscard]] bool has_room_for(std::uint64_t count, std::uint64_t least, std::string_view what);

  void stop(Error error) { error_ = std::move(error); }
  /// Where more has to be seen: this many bytes from here on would help. It is a guess and changes no answer.
  void guess(std::uint64_t bytes) noexcept;
  /// Why it stopped.
  [[nodiscard]] Result<Parsed> stopped() &&;

 private:
  template <std::endian Order>
  std::uint64_t pass_texts(std::uint64_t count) noexcept;

  Bytes seen_;
  std::uint64_t file_bytes_;
  std::uint64_t max_header_bytes_;
  ByteOrder order_ = ByteOrder::little;
  std::size_t at_ = 0;  // never behind what is seen
  std::uint64_t wanted_ = 0;
  std::optional<Error> error_;
};

}  // namespace ht::inline v1::format_gguf
