// What a file is going to be made of, before a byte of it is written: where every part comes from.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/values/rounding.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ht::inline v1 {

struct Relayout;

/// Bytes of one of the source's files.
struct StoredBytes {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;

  friend bool operator==(const StoredBytes&, const StoredBytes&) = default;
};

/// A repeated pattern: a splat.
struct RepeatedBytes {
  std::array<std::byte, 16> pattern{};
  std::uint8_t pattern_bytes = 1;

  [[nodiscard]] Bytes bytes() const noexcept { return Bytes(pattern).first(pattern_bytes); }
  friend bool operator==(const RepeatedBytes&, const RepeatedBytes&) = default;
};

/// A tensor of one of the source's files that becomes row-major and little-endian on the way.
struct RelaidBytes {
  std::uint32_t file = 0;
  /// Where the tensor begins.
  std::uint64_t offset = 0;
  /// Index into `PlannedFile::relayouts`.
  std::uint32_t relayout = 0;
  /// Bytes of the row-major, little-endian tensor that come before these.
  std::uint64_t before = 0;
};

/// How the values of a tensor get another dtype or encoding.
struct ValueChange {
  ElementType from;
  ElementType to;
  Rounding rounding{};
  std::uint64_t elements = 0;
  /// How the stored tensor becomes row-major and little-endian first; null if it is.
  std::shared_ptr<const Relayout> relayout{};
};

/// A tensor of one of the source's files whose values are converted on the way.
struct ConvertedBytes {
  std::uint32_t file = 0;
  /// Where the stored tensor begins.
  std::uint64_t offset = 0;
  /// Index into `PlannedFile::changes`.
  std::uint32_t change = 0;
  /// Bytes of the converted tensor that come before these.
  std::uint64_t before = 0;
};

/// A part of a file that is to be.
struct PlannedPart {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// `Bytes` are in memory, and have to stay there until the plan is applied.
  std::variant<StoredBytes, Bytes, RepeatedBytes, RelaidBytes, ConvertedBytes> from{};
};

struct PlannedFile {
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  /// What is made up: the file from its first byte on.
  std::vector<std::byte> header{};
  /// In order, apart, and behind the header. What none of them covers is zero.
  std::vector<PlannedPart> parts{};
  /// How tensors are made row-major and little-endian.
  std::vector<std::shared_ptr<const Relayout>> relayouts{};
  /// How values of tensors are converted.
  std::vector<ValueChange> changes{};
  /// Completes the header with the checksum of all parts (`Format::finish`); null if it is complete.
  void (*finish)(MutableBytes header, std::uint64_t data_crc64nvme) = nullptr;
};

/// How many bytes of the source came by which way.
struct CopiedBy {
  std::uint64_t reflink = 0;          ///< stored once for both files
  std::uint64_t direct = 0;           ///< past the page cache, in large pieces
  std::uint64_t copy_file_range = 0;  ///< by the system
  std::uint64_t read_write = 0;       ///< through a small ring of buffers
};

}  // namespace ht::inline v1
