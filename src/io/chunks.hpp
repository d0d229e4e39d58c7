// Ranges of files cut into pieces that are read one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <htensor/io/source.hpp>
#include <optional>
#include <span>

namespace ht::inline v1::io {

// A catalog may name what is not there, so sums end at the largest number.
[[nodiscard]] std::uint64_t end_of(const FileRange& range) noexcept;
[[nodiscard]] std::uint64_t sum_of(std::span<const FileRange> ranges) noexcept;

struct Chunk {
  FileRange range;
  /// Where it begins in all the ranges, laid end to end.
  std::uint64_t position = 0;
  /// Whether offset and size are as direct reads need them.
  bool direct = false;
  /// Which of the ranges it is of, and where it begins in that.
  std::size_t number = 0;
  std::uint64_t in_range = 0;

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// The chunks of some ranges, in order. Where a file has an alignment for direct reads, what lies between two
/// multiples of it is read so; the head before them and the tail behind them are not.
class ChunkPlan {
 public:
  /// `alignments` has one for each file, 0 where direct reads cannot be; `chunk_bytes` is a multiple of all.
  ChunkPlan(std::span<const FileRange> ranges, std::span<const std::uint64_t> alignments,
            std::uint64_t chunk_bytes) noexcept
      : ranges_(ranges), alignments_(alignments), chunk_bytes_(chunk_bytes) {}

  /// The next one; nothing behind the last.
  [[nodiscard]] std::optional<Chunk> next() noexcept;

 private:
  std::span<const FileRange> ranges_;
  std::span<const std::uint64_t> alignments_;
  std::uint64_t chunk_bytes_;
  std::size_t range_ = 0;
  std::uint64_t done_ = 0;  // of that range
  std::uint64_t position_ = 0;
};

}  // namespace ht::inline v1::io
