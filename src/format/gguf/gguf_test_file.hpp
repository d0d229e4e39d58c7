// Writes valid and malformed GGUF files for tests.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/format/metadata.hpp>
#include <string_view>
#include <vector>

#include "format/gguf/gguf.hpp"

namespace ht::testing {

class GgufFile {
 public:
  explicit GgufFile(std::endian order = std::endian::little) : order_(order) {}

  /// Magic, version and counts.
  GgufFile& header(std::int64_t tensors, std::int64_t values, std::uint32_t version = 3) {
    return raw(format_gguf::magic).number(version).number(tensors).number(values);
  }
  template <class T>
  GgufFile& number(T value) {
    bytes_.resize(bytes_.size() + sizeof(T));
    const auto place = MutableBytes(bytes_).last(sizeof(T));
    order_ == std::endian::big ? store_be(place, value) : store_le(place, value);
    return *this;
  }
  GgufFile& raw(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  GgufFile& text(std::string_view text) { return number(std::uint64_t{text.size()}).raw(text); }
  /// Writes a key and the type of its value; the caller writes the value next.
  GgufFile& key(std::string_view key, MetaType type) {
    return text(key).number(static_cast<std::uint32_t>(type));
  }
  GgufFile& array(MetaType type, std::uint64_t count) {
    return number(static_cast<std::uint32_t>(type)).number(count);
  }
  template <class T>
  GgufFile& pair(std::string_view name, MetaType type, T value) {
    return key(name, type).number(value);
  }
  /// `dims` are in the order of the file: innermost first.
  GgufFile& tensor(std::string_view name, const std::vector<std::int64_t>& dims, std::uint32_t type,
                   std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(dims.size()));
    for (const auto dim : dims) number(dim);
    return number(type).number(offset);
  }
  GgufFile& pad(std::size_t alignment = format_gguf::default_alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  GgufFile& zeros(std::size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }

 private:
  std::endian order_;
  std::vector<std::byte> bytes_;
};

/// A value of each type, arrays of arrays, and a tensor of one F32.
inline GgufFile all_values(std::endian order) {
  GgufFile file(order);
  file.header(1, 15);
  file.pair("u8", MetaType::u8, std::uint8_t{200}).pair("i8", MetaType::i8, std::int8_t{-100});
  file.pair("u16", MetaType::u16, std::uint16_t{60'000}).pair("i16", MetaType::i16, std::int16_t{-30'000});
  file.pair("u32", MetaType::u32, std::uint32_t{4'000'000'000}).pair("i32", MetaType::i32, std::int32_t{-7});
  file.pair("f32", MetaType::f32, 1.5F).pair("bool", MetaType::boolean, std::uint8_t{2});
  file.key("string", MetaType::string).text("any \xFF bytes");
  file.pair("u64", MetaType::u64, UINT64_MAX).pair("i64", MetaType::i64, INT64_MIN);
  file.pair("f64", MetaType::f64, -2.5);
  file.key("numbers", MetaType::array).array(MetaType::i16, 3);
  file.number(std::int16_t{1}).number(std::int16_t{-2}).number(std::int16_t{3});
  file.key("strings", MetaType::array).array(MetaType::string, 3).text("a").text("").text("long");
  file.key("nested", MetaType::array).array(MetaType::array, 3).array(MetaType::u32, 1).number(5U);
  file.array(MetaType::string, 1).text("in").array(MetaType::array, 1).array(MetaType::boolean, 0);
  return file.tensor("t", {1}, 0, 0).pad().zeros(32);
}

/// Parses a file, all of whose bytes are passed at once.
inline Result<Catalog> parse_gguf(const GgufFile& file, const ParseOptions& options = {}) {
  auto parsed = format_gguf::parse(file.bytes(), file.size(), options);
  if (!parsed) return fail(parsed.error());
  return std::get<Catalog>(std::move(*parsed));
}

}  // namespace ht::testing
