// The parts of a header as they lie in a file, how they are read and written, and where data has to be.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/metadata.hpp>
#include <htensor/format/parse.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "format/common.hpp"
#include "format/gguf/gguf.hpp"

namespace ht::inline v1::format_gguf {

/// ggml's limits; nothing that its readers refuse is written by anybody.
inline constexpr std::uint64_t max_text_bytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t max_array_elements = std::uint64_t{1} << 30;
inline constexpr int max_array_depth = 8;
/// Of a string: its length.
inline constexpr std::uint64_t least_text_bytes = 8;
/// A key of one byte and a value of one.
inline constexpr std::uint64_t least_pair_bytes = 8 + 1 + 4 + 1;
/// A name without a byte, no dimension, a type and an offset.
inline constexpr std::uint64_t least_tensor_bytes = 8 + 4 + 4 + 8;

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

/// Reads a header from its first byte on, as far as it is seen. Where it cannot go on, it stops: `stopped`
/// returns the reason, and whatever is read from then on is zero or empty. That the file ends too early or
/// the header is too large depends on the file's length and not on how much of it is seen, so that a caller
/// who sees less of it gets the same answer in the end.
class Reader {
 public:
  Reader(Bytes seen, std::uint64_t file_bytes, std::uint64_t max_header_bytes) noexcept
      : seen_(seen.first(static_cast<std::size_t>(std::min<std::uint64_t>(seen.size(), file_bytes)))),
        file_bytes_(file_bytes),
        max_header_bytes_(max_header_bytes) {}

  void set_order(ByteOrder order) noexcept { order_ = order; }
  [[nodiscard]] ByteOrder order() const noexcept { return order_; }

  /// Whether it has not stopped.
  [[nodiscard]] bool ok() const noexcept { return wanted_ == 0 && !error_; }
  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  /// How much of the file follows, and how much of that is seen.
  [[nodiscard]] std::uint64_t left() const noexcept { return file_bytes_ - at_; }
  [[nodiscard]] std::size_t seen_left() const noexcept { return seen_.size() - at_; }
  /// What was read from `begin` on.
  [[nodiscard]] Bytes since(std::size_t begin) const noexcept { return seen_.subspan(begin, at_ - begin); }
  void go_back(std::size_t begin) noexcept { at_ = begin; }

  /// The next bytes. `what` names them in the error.
  Bytes take(std::uint64_t bytes, std::string_view what);
  template <WireNumber T>
  [[nodiscard]] T number(std::string_view what) {
    const Bytes bytes = take(sizeof(T), what);
    return bytes.empty() ? T{} : load_in<T>(order_, bytes);
  }
  std::string_view text(std::string_view what);
  void skip_texts(std::uint64_t count, std::string_view what);

  /// Stops unless the file can have `count` of what has `least` bytes or more each.
  void check_room_for(std::uint64_t count, std::uint64_t least, std::string_view what);

  /// The first reason counts.
  void stop(Error error) {
    if (ok()) error_ = std::move(error);
  }
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

/// A key and its value, in the byte order of the file.
struct Pair {
  std::string_view key;
  MetaValue value;
};

/// Reads and checks all of them, as far as the reader does not stop.
[[nodiscard]] std::vector<Pair> read_pairs(Reader& reader, std::uint64_t count);

/// Why the pair cannot be stored; empty if it can.
[[nodiscard]] std::string_view pair_fault(const Metadata::Item& item);

/// Turns a value that is in the order `from` into the other order. Returns its bytes: more may follow it.
std::size_t reverse_value(MetaType type, MutableBytes value, ByteOrder from) noexcept;

/// Puts together a header from its first byte on.
class Writer {
 public:
  explicit Writer(ByteOrder order) : order_(order) {}

  template <WireNumber T>
  void number(T value) {
    const MutableBytes bytes = grow(sizeof(T));
    order_ == ByteOrder::big ? store_be(bytes, value) : store_le(bytes, value);
  }
  void text(std::string_view text) {
    number(static_cast<std::uint64_t>(text.size()));
    raw(bytes_of(text));
  }
  void pair(std::string_view key, const MetaValue& value) {
    text(key);
    number(static_cast<std::uint32_t>(value.type()));
    const MutableBytes written = raw(value.bytes());
    if (order_ == ByteOrder::big) reverse_value(value.type(), written, ByteOrder::little);
  }
  MutableBytes raw(Bytes bytes) {
    const MutableBytes place = grow(bytes.size());
    std::ranges::copy(bytes, place.begin());
    return place;
  }
  [[nodiscard]] std::vector<std::byte>& bytes() noexcept { return bytes_; }

 private:
  MutableBytes grow(std::size_t bytes) {
    bytes_.resize(bytes_.size() + bytes);
    return MutableBytes(bytes_).last(bytes);
  }

  ByteOrder order_;
  std::vector<std::byte> bytes_;
};

/// ggml's types are dense dtypes and block encodings under one numbering.
struct TensorType {
  std::uint32_t id = 0;
  /// `invalid` for a block encoding.
  DTypeTag dtype = DTypeTag::invalid;
  /// A dense dtype has blocks of one element and the tag `dense`.
  Encoding encoding{};
};

/// Nothing for numbers that ggml has retired or not given out.
[[nodiscard]] std::optional<TensorType> find_type(std::uint32_t id) noexcept;

/// Nothing for what ggml has no type for.
[[nodiscard]] std::optional<TensorType> type_of(const Entry& entry) noexcept;

/// Passes the whole table of tensors, as far as the reader does not stop.
void skip_tensors(Reader& reader, std::uint64_t count);

/// Where the data of tensors lies that follow each other as the format wants it. The alignment is a power of
/// two; so is `begin` a multiple of it.
struct DataPlan {
  std::uint64_t begin = 0;
  std::uint64_t alignment = default_alignment;
  /// Where the next tensor has to be, from the beginning of the data.
  std::uint64_t next = 0;

  [[nodiscard]] std::uint64_t next_in_file() const noexcept { return begin + next; }
  /// Puts it there; false where 63 bits cannot count where it and what it is filled up with end in the file.
  [[nodiscard]] bool place(std::uint64_t bytes) noexcept;
};

}  // namespace ht::inline v1::format_gguf
