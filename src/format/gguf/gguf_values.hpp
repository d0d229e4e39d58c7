// Values of the metadata as they lie in a file, and how they and the rest of a header are written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/metadata.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "format/gguf/gguf_reader.hpp"

namespace ht::inline v1::format_gguf {

inline constexpr int max_array_depth = 8;
/// A key of one byte and a value of one.
inline constexpr std::uint64_t least_pair_bytes = 8 + 1 + 4 + 1;

/// A key and its value, in the byte order of the file.
struct Pair {
  std::string_view key;
  MetaValue value;
};

/// Passes a value and checks all of it; false where the reader stopped.
[[nodiscard]] bool skip_value(Reader& reader, MetaType type);

/// Nothing where the reader stopped.
[[nodiscard]] std::optional<std::vector<Pair>> read_pairs(Reader& reader, std::uint64_t count);

/// Why the pair cannot be stored; empty if it can.
[[nodiscard]] std::string_view pair_fault(const Metadata::Item& item);

/// `would_lose` for such a pair.
[[nodiscard]] Result<void> check_pair(const Metadata::Item& item);

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
  void value(const MetaValue& value) {
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

}  // namespace ht::inline v1::format_gguf
