// Reads files in large chunks, several at once. The `staged` strategy passes the chunks to a consumer in
// order through a ring of fixed size. Memory use does not depend on the size of the files. The strategies
// `external` and `read` use the same reads to fill memory directly: `external` the caller's memory, `read`
// memory that it allocates.
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

// A catalog may name ranges outside the files, so sums saturate at the largest number.
[[nodiscard]] std::uint64_t end_of(const FileRange& range) noexcept;
[[nodiscard]] std::uint64_t sum_of(std::span<const FileRange> ranges) noexcept;

struct Chunk {
  FileRange range;
  /// Whether offset and size are aligned for direct reads.
  bool direct = false;
  /// The index of the range that contains the chunk, and the chunk's offset in that range.
  std::size_t range_number = 0;
  std::uint64_t offset_in_range = 0;

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

/// Splits ranges into chunks, in order. If a file has an alignment for direct reads, the aligned middle of a
/// range is read directly; the unaligned head and tail are not.
class ChunkPlan {
 public:
  /// `alignments` has one entry per file, 0 if direct reads are not possible; `chunk_bytes` is a multiple of
  /// all.
  ChunkPlan(std::span<const FileRange> ranges, std::span<const std::uint64_t> alignments,
            std::uint64_t chunk_bytes) noexcept
      : ranges_(ranges), alignments_(alignments), chunk_bytes_(chunk_bytes) {}

  /// Returns the next chunk; nullopt after the last.
  [[nodiscard]] std::optional<Chunk> next() noexcept;

 private:
  std::span<const FileRange> ranges_;
  std::span<const std::uint64_t> alignments_;
  std::uint64_t chunk_bytes_;
  std::size_t range_ = 0;
  std::uint64_t done_ = 0;  // bytes of that range
};

/// Called once with each chunk, in order. The bytes are valid only during the call. An error ends the load.
using ChunkConsumer = std::function<Result<void>(const Chunk& chunk, Bytes bytes)>;

struct StagedOptions {
  /// From 1 to 64.
  std::uint32_t chunks = 8;
  /// A multiple of 4096.
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;
  /// Bypass the page cache if the file system allows it.
  bool direct = true;
  /// Used by `load_into` with `direct` if most of the memory does not have the alignment of the file ranges.
  /// If true, `load_into` reads through a ring, past the page cache. If false, it uses no ring: it reads the
  /// aligned parts of the memory past the page cache, and the other parts through the page cache.
  bool ring_for_memory = true;
  /// One mapping per source, or empty to read all sources. Threads copy from the mappings in parallel instead
  /// of reading, because copying mapped bytes costs less than a read. A source with a null entry is read: it
  /// cannot be mapped, or a fault in its pages may terminate the process.
  std::span<MappedFile* const> mapped{};
  /// Called in order before the read of each chunk starts. May block until the pages of the chunk's target
  /// memory are allocated.
  std::function<void(const Chunk& chunk)> before_read{};
  /// The budget is not used here: callers allocate the memory. `on_loaded` is only used by `load_into`.
  Strategy::LoadWork work{};
};

/// Bytes read, and how many of them bypassed the page cache.
struct ReadTotals {
  std::uint64_t bytes = 0;
  std::uint64_t direct_bytes = 0;
};

/// `bad_state` if the number or size of chunks is not allowed.
[[nodiscard]] Result<void> check_ring(std::uint32_t chunks, std::uint64_t chunk_bytes);
/// `out_of_bounds` for a range that is not in its file, or whose file is missing.
[[nodiscard]] Result<void> check_ranges(const Sources& sources, std::span<const FileRange> ranges);

/// Reads the ranges through a ring. `read_failed`, `truncated`, `changed_underfoot` if a file changed since
/// it was opened, `cancelled`, `out_of_bounds` for a range that is not in its file, `bad_state` for an
/// invalid ring.
[[nodiscard]] Result<ReadTotals> load_staged(const Sources& sources, std::span<const FileRange> ranges,
                                             const ChunkConsumer& consumer,
                                             const StagedOptions& options = {});

/// Reads each range into its target in the caller's memory. `size_mismatch` unless each target has the size
/// of its range. Direct reads need memory whose addresses have the same offset in a page as the file ranges;
/// if most of the memory does not, chunks are read into a ring and copied.
[[nodiscard]] Result<ReadTotals> load_into(std::span<const MutableBytes> into, const Sources& sources,
                                           std::span<const FileRange> ranges,
                                           const StagedOptions& options = {});

}  // namespace ht::inline v1::io
