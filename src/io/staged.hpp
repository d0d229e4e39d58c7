// Files read in large pieces, several at once. The `staged` strategy hands the pieces on in order through a
// ring of fixed size: memory is that of the ring, however large the files are. The `external` strategy, and
// `read` with memory of its own, have them where they are wanted at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/io/strategy.hpp>
#include <optional>
#include <span>

namespace ht::inline v1::io {

class MappedFile;

// A catalog may name what is not there, so sums end at the largest number.
[[nodiscard]] std::uint64_t end_of(const FileRange& range) noexcept;
[[nodiscard]] std::uint64_t sum_of(std::span<const FileRange> ranges) noexcept;

struct Chunk {
  FileRange range;
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
};

/// Gets every chunk in order, once. Its bytes are its own only during the call. What it fails with ends the
/// load.
using ChunkConsumer = std::function<Result<void>(const Chunk& chunk, Bytes bytes)>;

struct StagedOptions {
  /// From 1 to 64.
  std::uint32_t chunks = 8;
  /// A multiple of 4096.
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  /// Past the page cache where the file system allows it.
  bool direct = true;
  /// Whether there may be a ring where memory does not lie as the file does; else that is not read directly.
  bool ring_for_memory = true;
  /// Threads copy from these mappings, all at once, instead of reading: copying mapped bytes costs less than
  /// a read. Null where touching a source may end the process.
  std::span<MappedFile* const> mapped{};
  /// Called before the read of a chunk is begun, in order; may wait for its memory.
  std::function<void(const Chunk& chunk)> before_read{};
  /// The budget is for callers, who allocate the memory; `on_loaded` is for `load_into`.
  LoadWork work{};
};

/// What was read, and how much of it past the page cache.
struct Staged {
  std::uint64_t bytes = 0;
  std::uint64_t direct_bytes = 0;
};

/// `bad_state` for a ring that cannot be.
[[nodiscard]] Result<void> check_ring(std::uint32_t chunks, std::uint64_t chunk_bytes);
/// `out_of_bounds` for a range that is not in its file, or whose file is missing.
[[nodiscard]] Result<void> check_ranges(const Sources& sources, std::span<const FileRange> ranges);

/// `read_failed`, `truncated`, `changed_underfoot` where a file is not as it was when it was opened,
/// `cancelled`, `out_of_bounds` for a range that is not in its file, `bad_state` for a ring that cannot be.
[[nodiscard]] Result<Staged> load_staged(const Sources& sources, std::span<const FileRange> ranges,
                                         const ChunkConsumer& consumer, const StagedOptions& options = {});

/// Each range into memory that is there already, of exactly its size (`size_mismatch`). Direct reads need
/// memory that lies as the file's blocks do; where most of it does not, they go through a ring and are
/// copied.
[[nodiscard]] Result<Staged> load_into(std::span<const MutableBytes> into, const Sources& sources,
                                       std::span<const FileRange> ranges, const StagedOptions& options = {});

}  // namespace ht::inline v1::io
