// Builds archives for tests field by field, independently of the encoder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <string>
#include <vector>

namespace ht::format_irpa::testing {

inline constexpr std::size_t first_entry = 96;

/// Appends numbers and text to a buffer.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& put(T number) {
    const auto at = bytes.size();
    bytes.resize(at + sizeof(T));
    store_le(MutableBytes(bytes).subspan(at), number);
    return *this;
  }
  ByteWriter& u64(std::uint64_t number) { return put(number); }
  ByteWriter& text(std::string_view text) {
    const auto more = bytes_of(text);
    bytes.insert(bytes.end(), more.begin(), more.end());
    return *this;
  }
  ByteWriter& fill_to(std::size_t size) {
    bytes.resize(std::max(size, bytes.size()));
    return *this;
  }
  ByteWriter& align(std::size_t alignment) {
    return fill_to((bytes.size() + alignment - 1) / alignment * alignment);
  }

  std::vector<std::byte> bytes;
};

struct ArchiveEntry {
  std::uint32_t kind = 2;
  std::string name;
  std::string metadata{};
  std::uint64_t offset = 0;  // for data and external entries
  std::uint64_t length = 0;
  std::string pattern{};
  std::string path{};
};

/// Returns an archive with one header. The storage has `storage` bytes of zeros and begins at a multiple
/// of 64.
inline std::vector<std::byte> archive(const std::vector<ArchiveEntry>& entries, std::uint64_t storage = 0,
                                      std::uint64_t next_header = 0) {
  ByteWriter table;
  std::string metadata;
  const auto append = [&](const std::string& text) {
    table.u64(metadata.size()).u64(text.size());
    metadata += text;
  };
  for (const auto& entry : entries) {
    constexpr std::uint64_t sizes[] = {60, 85, 76, 92};
    table.align(16).u64(sizes[entry.kind]).put(entry.kind).u64(0);
    append(entry.name);
    append(entry.metadata);
    table.u64(0);
    if (entry.kind == 1) {
      table.u64(entry.length).text(entry.pattern).text(std::string(16 - entry.pattern.size(), '\0'));
      table.put(static_cast<std::uint8_t>(entry.pattern.size()));
    }
    if (entry.kind == 3) append(entry.path);
    if (entry.kind >= 2) table.u64(entry.offset).u64(entry.length);
  }
  const std::uint64_t metadata_at = first_entry + table.bytes.size();
  const std::uint64_t storage_at = (metadata_at + metadata.size() + 63) / 64 * 64;
  ByteWriter file;
  file.text("IRPA").put(std::uint32_t{0}).u64(88).u64(next_header).u64(0).u64(entries.size());
  file.u64(first_entry).u64(table.bytes.size()).u64(metadata_at).u64(metadata.size());
  file.u64(storage_at).u64(storage).fill_to(first_entry);
  file.bytes.insert(file.bytes.end(), table.bytes.begin(), table.bytes.end());
  file.text(metadata).fill_to(static_cast<std::size_t>(storage_at + storage));
  return file.bytes;
}

}  // namespace ht::format_irpa::testing
