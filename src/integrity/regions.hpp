// The parts of files for which a seal has digests.
//
// Each file is cut into regions where a tensor begins or ends, so a tensor consists of whole regions. Each
// region is cut into chunks from its beginning on. The cuts depend only on the sizes of the files and the
// ranges of the tensors.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/integrity/seal.hpp>
#include <span>
#include <utility>
#include <vector>

#include "io/strategy/staged.hpp"

namespace ht::inline v1 {

struct SealRegion {
  io::FileRange range;
  /// The number of the region's first chunk.
  std::uint64_t first_chunk = 0;
  /// The first tensor that contains the region; nullopt for a header, a gap or a tail.
  std::optional<std::size_t> tensor;

  [[nodiscard]] std::uint64_t chunks() const noexcept {
    return range.bytes / Seal::chunk_bytes + (range.bytes % Seal::chunk_bytes != 0 ? 1 : 0);
  }
};

struct SealChunk {
  std::uint64_t number = 0;
  /// The region of the chunk.
  std::size_t region = 0;
  io::FileRange range;
};

class SealRegions {
 public:
  /// The tensors have to be within their files.
  SealRegions(std::span<const std::uint64_t> file_bytes, std::span<const Seal::Tensor> tensors);
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
  /// Returns the nth chunk of a region.
  [[nodiscard]] SealChunk chunk(std::size_t region, std::uint64_t nth) const noexcept;
  /// Returns the chunk that contains this byte, which must exist.
  [[nodiscard]] SealChunk chunk_at(std::uint32_t file, std::uint64_t offset) const noexcept;
  /// Returns the first region of a file, and the end of its regions.
  [[nodiscard]] std::pair<std::size_t, std::size_t> of_file(std::size_t file) const noexcept {
    return {first_regions_[file], first_regions_[file + 1]};
  }

 private:
  std::vector<SealRegion> regions_;
  std::vector<std::size_t> first_regions_;  // first region of each file, then the number of regions
  std::uint64_t chunks_ = 0;
};

/// Returns the digest of a chunk from the seal.
[[nodiscard]] Digest sealed_digest(const Seal& seal, std::uint64_t chunk) noexcept;

}  // namespace ht::inline v1
