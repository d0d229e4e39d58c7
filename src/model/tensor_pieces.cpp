#include "model/tensor_pieces.hpp"

#include <algorithm>
#include <tuple>

namespace ht::inline v1 {

TensorPieces::TensorPieces(const Catalog& catalog, std::span<const std::size_t> tensors,
                           const PieceConsumer& consumer)
    : consumer_(consumer) {
  parts_.reserve(tensors.size());
  for (const std::size_t index : tensors) {
    const Entry entry = catalog[index];
    if (!entry.is_splat() && entry.bytes != 0) {
      parts_.push_back({index, {entry.file, entry.offset, entry.bytes}});
    }
  }
  std::ranges::sort(parts_, {}, [](const Part& part) {
    return std::tuple(part.range.file, part.range.offset, part.index);
  });
}

Result<void> TensorPieces::take(const io::FileRange& range, Bytes bytes) {
  const std::uint64_t end = range.offset + range.bytes;
  const auto is_over = [&](const io::FileRange& part) {
    return part.file < range.file || (part.file == range.file && part.offset + part.bytes <= range.offset);
  };
  while (first_ < parts_.size() && is_over(parts_[first_].range)) ++first_;
  for (std::size_t i = first_; i < parts_.size(); ++i) {
    const auto& [index, part] = parts_[i];
    if (part.file != range.file || part.offset >= end) break;
    if (is_over(part)) continue;  // one that began before, and ended before
    const std::uint64_t from = std::max(part.offset, range.offset);
    const std::uint64_t to = std::min(part.offset + part.bytes, end);
    HT_TRY(consumer_({.index = index,
                      .offset = from - part.offset,
                      .bytes = bytes.subspan(static_cast<std::size_t>(from - range.offset),
                                             static_cast<std::size_t>(to - from))}));
  }
  return {};
}

}  // namespace ht::inline v1
