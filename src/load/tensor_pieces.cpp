#include "load/tensor_pieces.hpp"

#include <algorithm>
#include <tuple>

#include "model/model_access.hpp"

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
  const std::uint64_t end = end_of(range);
  const auto begins_before_end = [&](const io::FileRange& part) {
    return part.file < range.file || (part.file == range.file && part.offset < end);
  };
  const auto is_over = [&](std::size_t i) {
    const auto& part = parts_[i].range;
    return part.file < range.file || (part.file == range.file && end_of(part) <= range.offset);
  };
  while (next_ < parts_.size() && begins_before_end(parts_[next_].range)) open_.push_back(next_++);
  std::erase_if(open_, is_over);
  for (const std::size_t i : open_) {
    const auto& [index, part] = parts_[i];
    const std::uint64_t from = std::max(part.offset, range.offset);
    const std::uint64_t to = std::min(end_of(part), end);
    HT_TRY(consumer_({.index = index,
                      .offset = from - part.offset,
                      .bytes = bytes.subspan(static_cast<std::size_t>(from - range.offset),
                                             static_cast<std::size_t>(to - from))}));
  }
  return {};
}

}  // namespace ht::inline v1
