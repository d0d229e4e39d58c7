// Memory for what is read: aligned for direct reads, of large pages where the system has them, and given back
// part by part; and where tensors go in it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <htensor/io/strategy.hpp>
#include <memory>
#include <span>
#include <vector>

namespace ht::inline v1::io {

/// Memory of std::aligned_alloc.
struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<std::byte, Free>;

class OwnMemory {
 public:
  /// Begins at a page. `out_of_memory`.
  [[nodiscard]] static Result<std::shared_ptr<OwnMemory>> allocate(std::uint64_t bytes, Port& port);

  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() = default;

  [[nodiscard]] MutableBytes bytes() const noexcept { return {memory_.get(), bytes_}; }
  /// Whether the pages of this part have memory now, so that writing to them does not wait; the others get it
  /// when they are written to. May be called from several threads at once.
  [[nodiscard]] bool allocate_pages(std::uint64_t offset, std::uint64_t bytes) const;
  /// Gives the whole pages of a part back to the system; nobody may look at it any more.
  void drop(Bytes part) noexcept;

 private:
  OwnMemory(AlignedMemory memory, std::size_t bytes, Port& port) noexcept
      : memory_(std::move(memory)), bytes_(bytes), port_(port) {}

  AlignedMemory memory_;
  std::size_t bytes_;
  Port& port_;
};

/// An owner of a part, which goes when nobody holds it, unless it is `shared` with other parts. Then it goes,
/// as pages that it has in common with its neighbours do, with the last part of what it is `within`.
[[nodiscard]] std::shared_ptr<const void> own_part(std::shared_ptr<OwnMemory> memory, Bytes part,
                                                   std::shared_ptr<const void> within = {},
                                                   bool shared = false);

struct ArenaLayout {
  /// Where each request's bytes begin, and which read brings them; 0 where it has none.
  std::vector<std::uint64_t> positions;
  std::vector<std::size_t> read_of;
  /// What is to be read, in the order of the files, and where to. Requests that touch or nearly do are read
  /// as one.
  std::vector<FileRange> reads;
  std::vector<std::uint64_t> read_positions;
  /// Whether some of a read's requests lie over each other, so that they share memory.
  std::vector<bool> shared;
  std::uint64_t bytes = 0;
};

/// For ranges that are in their files. What is aligned in its file lies in memory as it does in the file's
/// pages, so that it can be read past the page cache; what is not is put where it is aligned. `size_overflow`
/// where all of it is more than can be counted.
[[nodiscard]] Result<ArenaLayout> lay_out(std::span<const LoadRequest> requests);

}  // namespace ht::inline v1::io
