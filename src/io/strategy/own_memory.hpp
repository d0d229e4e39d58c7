// Memory for loaded tensors, and the layout of the tensors in this memory. The memory is aligned for direct
// reads, uses huge pages if the system has them, and is freed part by part.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/strategy.hpp>
#include <memory>
#include <span>
#include <vector>

#include "io/port/port.hpp"

namespace ht::inline v1::io {

/// Deleter for memory from std::aligned_alloc.
struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, Free>;

class OwnMemory {
 public:
  /// Allocates memory that begins at a page. `out_of_memory`.
  [[nodiscard]] static Result<std::shared_ptr<OwnMemory>> allocate(std::uint64_t bytes, Port& port);

  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() = default;

  [[nodiscard]] MutableBytes bytes() const noexcept { return {memory_.get(), bytes_}; }
  /// Allocates the pages of this part in advance, so that writes do not fault. Returns false if that failed;
  /// pages are then allocated at the first write. Thread-safe.
  [[nodiscard]] bool allocate_pages(std::uint64_t offset, std::uint64_t bytes) const;
  /// Returns the whole pages of a part to the system. The part must not be used afterwards.
  void drop(Bytes part) noexcept;

 private:
  OwnMemory(AlignedMemory memory, std::size_t bytes, Port& port) noexcept
      : memory_(std::move(memory)), bytes_(bytes), port_(port) {}

  AlignedMemory memory_;
  std::size_t bytes_;
  Port& port_;
};

/// Returns an owner of `part`. Its last reference drops the whole pages of the part, unless the part is
/// `shared`: it may overlap another part. The owner holds a reference to `within`, the owner of a larger part
/// that contains this part. The last reference to `within` drops the pages that remain.
[[nodiscard]] std::shared_ptr<const void> own_part(std::shared_ptr<OwnMemory> memory, Bytes part,
                                                   std::shared_ptr<const void> within = {},
                                                   bool shared = false);

struct ArenaLayout {
  /// Where each request's bytes begin, and which read fills them; 0 for an empty request.
  std::vector<std::uint64_t> positions;
  std::vector<std::size_t> read_of;
  /// The file ranges to read, and their positions in memory. Requests that touch or nearly touch are merged.
  std::vector<FileRange> reads;
  std::vector<std::uint64_t> read_positions;
  /// Whether requests of a read overlap, so that they share memory.
  std::vector<bool> shared;
  std::uint64_t bytes = 0;
};

/// Computes the layout for ranges that are within their files. A request that is aligned in its file gets the
/// same offset in a page as in the file, so that direct reads are possible; others are placed at an aligned
/// position. `size_overflow` if the total exceeds 64 bits.
[[nodiscard]] Result<ArenaLayout> lay_out(std::span<const Strategy::LoadRequest> requests);

}  // namespace ht::inline v1::io
