// Offsets and sizes of the fields of an archive.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/bytes.hpp>

namespace ht::inline v1::format_irpa {

inline constexpr std::uint64_t header_bytes = 88;
/// Headers and entries begin at multiples of this.
inline constexpr std::uint64_t entry_alignment = 16;
inline constexpr std::uint64_t data_alignment = 64;
inline constexpr std::uint64_t file_alignment = 4096;
inline constexpr std::size_t max_pattern_bytes = 16;

enum HeaderField : std::size_t {
  at_magic = 0,
  at_major = 4,
  at_minor = 6,
  at_header_size = 8,
  at_next_header = 16,
  at_entry_count = 32,
  at_entries = 40,
  at_metadata = 56,
  at_storage = 72,
};

enum EntryField : std::size_t {
  at_entry_size = 0,
  at_kind = 8,
  at_name = 20,
  at_entry_metadata = 36,
  at_minimum_alignment = 52,
  at_splat_length = 60,
  at_pattern = 68,
  at_pattern_length = 84,
  at_data = 60,
  at_path = 60,
  at_external = 76,
};

enum class Kind : std::uint32_t { skip, splat, data, external };

/// Size of an entry by kind. All kinds begin with the fields of a "skip" entry.
inline constexpr std::array<std::uint64_t, 4> entry_bytes{60, 85, 76, 92};
inline constexpr std::uint64_t entry_header_bytes = entry_bytes[0];

struct Range {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  /// The end of the range, which must not overflow.
  [[nodiscard]] std::uint64_t end() const noexcept { return offset + length; }
  friend auto operator<=>(const Range&, const Range&) = default;
};

[[nodiscard]] inline Range load_range(Bytes bytes) noexcept {
  return {load_le<std::uint64_t>(bytes), load_le<std::uint64_t>(bytes.subspan(8))};
}

inline void store_range(MutableBytes bytes, Range range) noexcept {
  store_le(bytes, range.offset);
  store_le(bytes.subspan(8), range.length);
}

}  // namespace ht::inline v1::format_irpa
