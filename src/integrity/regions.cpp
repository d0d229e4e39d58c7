#include "integrity/regions.hpp"

#include <algorithm>
#include <set>

namespace ht::inline v1 {
namespace {

// An offset at which a tensor begins or ends.
struct Cut {
  std::uint32_t file;
  std::uint64_t offset;
  std::size_t tensor;
  bool begins;
};

std::vector<Cut> cuts_of(std::span<const Seal::Tensor> tensors) {
  std::vector<Cut> cuts;
  cuts.reserve(2 * tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, file, offset, bytes, digest] = tensors[i];
    if (!file || bytes == 0) continue;
    cuts.push_back({*file, offset, i, true});
    cuts.push_back({*file, offset + bytes, i, false});
  }
  std::ranges::sort(cuts, {}, [](const Cut& cut) { return std::tuple(cut.file, cut.offset, cut.tensor); });
  return cuts;
}

std::vector<std::uint64_t> sizes_of(std::span<const Seal::File> files) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(files.size());
  for (const auto& file : files) sizes.push_back(file.bytes);
  return sizes;
}

}  // namespace

SealRegions::SealRegions(const Seal& seal) : SealRegions(sizes_of(seal.files), seal.tensors) {}

SealRegions::SealRegions(std::span<const std::uint64_t> file_bytes, std::span<const Seal::Tensor> tensors) {
  const auto cuts = cuts_of(tensors);
  regions_.reserve(cuts.size() + file_bytes.size());
  auto cut = cuts.begin();
  std::set<std::size_t> open;  // tensors that contain the current offset
  for (std::uint32_t file = 0; file < file_bytes.size(); ++file) {
    first_regions_.push_back(regions_.size());
    std::uint64_t begin = 0;
    const auto end_region_at = [&](std::uint64_t end) {
      if (end == begin) return;
      SealRegion region{.range = {file, begin, end - begin}, .first_chunk = chunks_, .tensor = std::nullopt};
      if (!open.empty()) region.tensor = *open.begin();
      chunks_ += region.chunks();
      regions_.push_back(region);
      begin = end;
    };
    for (; cut != cuts.end() && cut->file == file; ++cut) {
      end_region_at(cut->offset);
      if (cut->begins) {
        open.insert(cut->tensor);
      } else {
        open.erase(cut->tensor);
      }
    }
    end_region_at(file_bytes[file]);
  }
  first_regions_.push_back(regions_.size());
}

SealChunk SealRegions::chunk(std::size_t region, std::uint64_t nth) const noexcept {
  const auto& [range, first, tensor] = regions_[region];
  const std::uint64_t skipped = nth * Seal::chunk_bytes;
  return {.number = first + nth,
          .region = region,
          .range = {range.file, range.offset + skipped, std::min(Seal::chunk_bytes, range.bytes - skipped)}};
}

SealChunk SealRegions::chunk_at(std::uint32_t file, std::uint64_t offset) const noexcept {
  const auto begin = regions_.begin() + static_cast<std::ptrdiff_t>(first_regions_[file]);
  const auto end = regions_.begin() + static_cast<std::ptrdiff_t>(first_regions_[file + 1]);
  const auto after = std::ranges::upper_bound(begin, end, offset, {},
                                              [](const SealRegion& region) { return region.range.offset; });
  const auto region = static_cast<std::size_t>(after - regions_.begin()) - 1;
  return chunk(region, (offset - regions_[region].range.offset) / Seal::chunk_bytes);
}

Digest sealed_digest(const Seal& seal, std::uint64_t chunk) noexcept {
  const std::size_t size = digest_bytes(seal.algorithm);
  return {seal.algorithm, Bytes(seal.chunks).subspan(static_cast<std::size_t>(chunk) * size, size)};
}

}  // namespace ht::inline v1
