// Files read in large pieces, several at once. The `staged` strategy hands the pieces on in order through a
// ring of fixed size: memory is that of the ring, however large the files are. The `external` strategy, and
// `read` with memory of its own, have them where they are wanted at once.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/result.hpp>
#include <span>
#include <stop_token>

#include "io/chunks.hpp"

namespace ht::inline v1::io {

/// Which queue has the reads.
enum class Queueing : std::uint8_t {
  automatic,  ///< the system's, else threads
  threads,    ///< what is in the page cache already is copied by all of them at once
};

class MappedFile;

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
  Queueing queueing = Queueing::automatic;
  /// Threads copy from these mappings instead of reading: copying mapped bytes costs less than a read. Null
  /// where touching a source may end the process.
  std::span<MappedFile* const> mapped{};
  /// Called before the read of a chunk is begun, in order; may wait for its memory.
  std::function<void(const Chunk& chunk)> before_read{};
  /// Sees what goes into memory, where it then is.
  ChunkConsumer on_loaded{};
  std::stop_token stop{};
  /// Called after each chunk with all bytes so far.
  std::function<void(std::uint64_t done_bytes)> on_progress{};
};

/// What was done, and how.
struct Staged {
  std::uint64_t bytes = 0;
  std::uint64_t direct_bytes = 0;
  std::uint64_t chunks = 0;
  /// By io_uring, else by threads.
  bool through_the_systems_queue = false;
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
