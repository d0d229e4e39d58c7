// Builds NPY and IRPA files byte by byte, for tests of whole models.
#pragma once

#include <array>
#include <bit>
#include <htensor/base/bytes.hpp>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace ht::testing {

/// Returns the bytes of the numbers in either byte order.
template <class T>
std::string stored(std::initializer_list<T> numbers, bool big_endian = false) {
  std::string text;
  for (const auto number : numbers) {
    const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(number);
    text += big_endian ? std::string(bytes.rbegin(), bytes.rend()) : std::string(bytes.begin(), bytes.end());
  }
  return text;
}

/// Appends numbers and text to a buffer, in little-endian order.
class ByteBuffer {
 public:
  template <class T>
  ByteBuffer& number(T value) {
    const auto at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    store_le(MutableBytes(bytes_).subspan(at), value);
    return *this;
  }
  ByteBuffer& u32(std::uint32_t value) { return number(value); }
  ByteBuffer& u64(std::uint64_t value) { return number(value); }
  ByteBuffer& text(std::string_view text) {
    const auto more = bytes_of(text);
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  ByteBuffer& align(std::size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.emplace_back();
    return *this;
  }
  ByteBuffer& append(const std::vector<std::byte>& more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Returns an NPY 1.0 file: a header with a Python dict, padded to a multiple of 64 bytes, and the data.
inline std::vector<std::byte> npy_file(std::string_view descr, bool fortran, std::string_view shape,
                                       std::string_view data) {
  std::string header = "{'descr': '" + std::string(descr) +
                       "', 'fortran_order': " + (fortran ? "True" : "False") +
                       ", 'shape': " + std::string(shape) + ", }";
  while ((header.size() + 11) % 64 != 0) header += ' ';
  header += '\n';
  ByteBuffer file;
  file.text("\x93NUMPY\x01").number(std::uint8_t{0}).number(static_cast<std::uint16_t>(header.size()));
  return file.text(header).text(data).bytes();
}

/// An entry of an IRPA archive: a splat if it has a pattern, data in another file if it has a path, otherwise
/// data in the archive.
struct IrpaEntry {
  std::string name;
  std::string note{};
  std::uint64_t length = 0;
  std::uint64_t offset = 0;
  std::string path{};
  std::string pattern{};
};

/// Returns the note in which IREE's Python runtime stores dtype and shape.
inline std::string tensor_note(std::string_view dtype, std::string_view shape) {
  return R"(TENSORv0:{"type": "Tensor", "dtype": ")" + std::string(dtype) + R"(", "shape": )" +
         std::string(shape) + "}";
}

inline std::vector<std::byte> irpa_file(const std::vector<IrpaEntry>& entries,
                                        std::string_view storage = {}) {
  constexpr std::uint64_t table_at = 96;
  ByteBuffer table;
  std::string metadata;
  const auto refer_to = [&](std::string_view text) {
    table.u64(metadata.size()).u64(text.size());
    metadata += text;
  };
  for (const auto& entry : entries) {
    const bool is_splat = !entry.pattern.empty();
    const bool is_external = !entry.path.empty();
    table.align(16).u64(is_splat ? 85 : is_external ? 92 : 76).u32(is_splat ? 1 : is_external ? 3 : 2).u64(0);
    refer_to(entry.name);
    refer_to(entry.note);
    table.u64(0);
    if (is_splat) {
      table.u64(entry.length).text(entry.pattern).text(std::string(16 - entry.pattern.size(), '\0'));
      table.number(static_cast<std::uint8_t>(entry.pattern.size()));
      continue;
    }
    if (is_external) refer_to(entry.path);
    table.u64(entry.offset).u64(entry.length);
  }
  const std::uint64_t metadata_at = table_at + table.bytes().size();
  const std::uint64_t storage_at = (metadata_at + metadata.size() + 63) / 64 * 64;
  ByteBuffer file;
  file.text("IRPA").u32(0).u64(88).u64(0).u64(0).u64(entries.size());
  file.u64(table_at).u64(table.bytes().size()).u64(metadata_at).u64(metadata.size());
  file.u64(storage_at).u64(storage.size()).align(16).append(table.bytes()).text(metadata);
  return file.align(64).text(storage).align(4096).bytes();
}

}  // namespace ht::testing
