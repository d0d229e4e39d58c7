// The parts of files that a seal has digests of.
//
// Each file is cut where a tensor begins or ends, so that a tensor is always some whole regions, and each
// region into chunks from its beginning on. What is cut where follows from the sizes of the files and the
// places of the tensors alone.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/integrity/seal.hpp>
#include <span>
#include <utility>
#include <vector>

#include "io/staged.hpp"

namespace ht::inline v1 {

struct SealRegion {
  io::FileRange range;
  /// The number of the first of all chunks that is of it.
  std::uint64_t first_chunk = 0;
  /// The first of the tensors that have it; none for a header, a gap, a tail.
  std::optional<std::size_t> tensor;

  [[nodiscard]] std::uint64_t chunks() const noexcept {
    return range.bytes / Seal::chunk_bytes + (range.bytes % Seal::chunk_bytes != 0 ? 1 : 0);
  }
};

struct SealChunk {
  std::uint64_t number = 0;
  /// The region that it is of.
  std::size_t region = 0;
  io::FileRange range;
};

class SealRegions {
 public:
  /// The tensors have to lie in their files.
  SealRegions(std::span<const std::uint64_t> file_bytes, std::span<const SealedTensor> tensors);
  explicit SealRegions(const Seal& seal);

  [[nodiscard]] const std::vector<SealRegion>& all() const noexcept { return regions_; }
  [[nodiscard]] const SealRegion& operator[](std::size_t number) const noexcept { return regions_[number]; }
  [[nodiscard]] std::uint64_t chunks() const noexcept { return chunks_; }

  /// Calls `body` with each chunk, in order.
  template <class Body>
  void each_chunk(const Body& body) const {
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      for (std::uint64_t nth = 0; nth < regions_[i].chunks(); ++nth) body(chunk(i, nth));
    }
  }
  /// The nth of a region.
  [[nodiscard]] SealChunk chunk(std::size_t region, std::uint64_t nth) const noexcept;
  /// The one that has this byte; there must be one.
  [[nodiscard]] SealChunk chunk_at(std::uint32_t file, std::uint64_t offset) const noexcept;
  /// The numbers of a file's regions: from the first to behind the last.
  [[nodiscard]] std::pair<std::size_t, std::size_t> of_file(std::size_t file) const noexcept {
    return {first_regions_[file], first_regions_[file + 1]};
  }

 private:
  std::vector<SealRegion> regions_;
  std::vector<std::size_t> first_regions_;  // of each file, and the end
  std::uint64_t chunks_ = 0;
};

/// The digest that the seal has of a chunk.
[[nodiscard]] Digest sealed_digest(const Seal& seal, std::uint64_t chunk) noexcept;

}  // namespace ht::inline v1
