// Numbers, strings and values as they are written, in either byte order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/metadata.hpp>
#include <string_view>
#include <vector>

#include "format/gguf/gguf_values.hpp"

namespace ht::inline v1::format_gguf {

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
    if (order_ == ByteOrder::big) reverse_value(value.type(), written, std::endian::little);
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
