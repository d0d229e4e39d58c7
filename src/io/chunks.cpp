#include "io/chunks.hpp"

#include <algorithm>
#include <htensor/base/checked.hpp>

namespace ht::inline v1::io {
namespace {

std::uint64_t sum(std::uint64_t a, std::uint64_t b) noexcept {
  return checked::add(a, b).value_or(UINT64_MAX);
}

}  // namespace

std::uint64_t end_of(const FileRange& range) noexcept { return sum(range.offset, range.bytes); }

std::uint64_t sum_of(std::span<const FileRange> ranges) noexcept {
  std::uint64_t all = 0;
  for (const auto& range : ranges) all = sum(all, range.bytes);
  return all;
}

std::optional<Chunk> ChunkPlan::next() noexcept {
  while (range_ < ranges_.size() && done_ == ranges_[range_].bytes) {
    ++range_;
    done_ = 0;
  }
  if (range_ == ranges_.size()) return std::nullopt;
  const FileRange& range = ranges_[range_];
  const std::uint64_t offset = range.offset + done_;
  const std::uint64_t left = range.bytes - done_;
  const std::uint64_t alignment = alignments_[range.file];
  Chunk chunk{.range = {range.file, offset, std::min(left, chunk_bytes_)},
              .position = position_,
              .number = range_,
              .in_range = done_};
  if (alignment != 0) {
    const std::uint64_t to_aligned = (alignment - offset % alignment) % alignment;
    if (to_aligned != 0) {
      chunk.range.bytes = std::min(left, to_aligned);
    } else if (left >= alignment) {
      chunk.range.bytes -= chunk.range.bytes % alignment;
      chunk.direct = true;
    }
  }
  done_ += chunk.range.bytes;
  position_ += chunk.range.bytes;
  return chunk;
}

}  // namespace ht::inline v1::io
