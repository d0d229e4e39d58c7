// Reads and writes the parts of a GGUF header, and computes the offsets of tensor data.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <htensor/format/metadata.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "format/format_errors.hpp"
#include "format/gguf/gguf.hpp"

namespace ht::inline v1::format_gguf {

/// ggml's limits: ggml rejects files beyond them, so writers do not produce such files.
inline constexpr std::uint64_t max_text_bytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t max_array_elements = std::uint64_t{1} << 30;
/// A limit of this library: ggml rejects every array of arrays.
inline constexpr int max_array_depth = 8;
/// Minimum size of a string: its length field.
inline constexpr std::uint64_t min_text_bytes = 8;
/// Minimum size of a pair: a key of one byte and a value of one byte.
inline constexpr std::uint64_t min_pair_bytes = 8 + 1 + 4 + 1;
/// Minimum size of a tensor in the table: empty name, rank 0, type and offset.
inline constexpr std::uint64_t min_tensor_bytes = 8 + 4 + 4 + 8;

/// The byte order, derived from the version field: the byte-swapped form of a known version is not a known
/// version.
[[nodiscard]] inline ByteOrder order_of_version(Bytes version) noexcept {
  const auto little = load_le<std::uint32_t>(version);
  return little != 0 && (little & 0xFFFF) == 0 ? ByteOrder::big : ByteOrder::little;
}

/// The number at the start of the bytes, which are in the given order.
template <WireNumber T>
[[nodiscard]] T load_in(ByteOrder order, Bytes bytes) noexcept {
  return order == ByteOrder::big ? load_be<T>(bytes) : load_le<T>(bytes);
}

/// Reads a header from its first byte. The reader stops at an error or at the end of the bytes read so far:
/// `stop_reason` returns the reason, and all later reads return zero or empty. `truncated` and
/// `header_too_large` do not depend on the length of the prefix, so a caller that begins with a shorter
/// prefix gets the same result in the end.
class Reader {
 public:
  Reader(Bytes prefix, std::uint64_t file_bytes, std::uint64_t max_header_bytes) noexcept
      : prefix_(prefix.first(static_cast<std::size_t>(std::min<std::uint64_t>(prefix.size(), file_bytes)))),
        file_bytes_(file_bytes),
        max_header_bytes_(max_header_bytes) {}

  void set_order(ByteOrder order) noexcept { order_ = order; }
  [[nodiscard]] ByteOrder order() const noexcept { return order_; }

  /// Whether the reader has not stopped.
  [[nodiscard]] bool ok() const noexcept { return needed_ == 0 && !error_; }
  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  /// Bytes after the current position in the file, and in the prefix read so far.
  [[nodiscard]] std::uint64_t left_in_file() const noexcept { return file_bytes_ - at_; }
  [[nodiscard]] std::size_t left_in_prefix() const noexcept { return prefix_.size() - at_; }
  /// The bytes from `begin` to the current position.
  [[nodiscard]] Bytes since(std::size_t begin) const noexcept { return prefix_.subspan(begin, at_ - begin); }
  void go_back(std::size_t begin) noexcept { at_ = begin; }

  /// Reads the next bytes. `field` names them in the error.
  Bytes take(std::uint64_t bytes, std::string_view field);
  template <WireNumber T>
  [[nodiscard]] T number(std::string_view field) {
    const Bytes bytes = take(sizeof(T), field);
    return bytes.empty() ? T{} : load_in<T>(order_, bytes);
  }
  std::string_view text(std::string_view field);
  void skip_texts(std::uint64_t count, std::string_view field);

  /// Stops unless the rest of the file can hold `count` items of at least `min_item_bytes` each.
  void check_room_for(std::uint64_t count, std::uint64_t min_item_bytes, std::string_view items);

  /// Only the first error is kept.
  void stop(Error error) {
    if (ok()) error_ = std::move(error);
  }
  /// If more bytes are needed, requests at least this many from the current position. The number may be an
  /// estimate: it affects speed only.
  void extend_request(std::uint64_t bytes) noexcept;
  /// The reason for stopping: an Error, or a Need for more bytes.
  [[nodiscard]] Result<ParseResult> stop_reason() &&;

 private:
  template <std::endian Order>
  std::uint64_t skip_complete_texts(std::uint64_t count) noexcept;

  Bytes prefix_;
  std::uint64_t file_bytes_;
  std::uint64_t max_header_bytes_;
  ByteOrder order_ = ByteOrder::little;
  std::size_t at_ = 0;  // at most prefix_.size()
  std::uint64_t needed_ = 0;
  std::optional<Error> error_;
};

/// A key and its value, in the byte order of the file.
struct Pair {
  std::string_view key;
  MetaValue value;
};

/// Reads and checks `count` pairs, or fewer if the reader stops.
[[nodiscard]] std::vector<Pair> read_pairs(Reader& reader, std::uint64_t count);

/// Why the pair cannot be stored; empty if it can.
[[nodiscard]] std::string_view pair_fault(const Metadata::Item& item);

/// Byte-swaps a value that is in the order `from`. Returns the size of the value; `value` may be longer.
std::size_t byte_swap_value(MetaType type, MutableBytes value, ByteOrder from) noexcept;

/// Writes a header from its first byte.
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
    if (order_ == ByteOrder::big) byte_swap_value(value.type(), written, ByteOrder::little);
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

/// nullopt for numbers that ggml has retired or not assigned.
[[nodiscard]] std::optional<TensorType> find_type(std::uint32_t id) noexcept;

/// nullopt if ggml has no type for the entry.
[[nodiscard]] std::optional<TensorType> type_of(const Entry& entry) noexcept;

/// Moves the reader past the tensor table. Checks only that each rank is at most 4 and that the table is
/// complete; otherwise the reader stops.
void check_and_skip_table(Reader& reader, std::uint64_t count);

/// Computes the offsets of adjacent tensors. The alignment is a power of two, and `begin` is a multiple of
/// it.
struct DataPlan {
  std::uint64_t begin = 0;
  std::uint64_t alignment = default_alignment;
  /// The offset of the next tensor, relative to the start of the data.
  std::uint64_t next = 0;

  [[nodiscard]] std::uint64_t next_in_file() const noexcept { return begin + next; }
  /// Places a tensor at `next`. False if its padded end in the file exceeds 63 bits.
  [[nodiscard]] bool place(std::uint64_t bytes) noexcept;
};

}  // namespace ht::inline v1::format_gguf
