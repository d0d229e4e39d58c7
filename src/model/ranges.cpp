#include "model/ranges.hpp"

#include <algorithm>
#include <htensor/base/checked.hpp>
#include <tuple>

namespace ht::inline v1 {

std::vector<io::FileRange> merged_ranges(const Catalog& catalog, std::span<const std::size_t> tensors,
                                         std::uint64_t gap_bytes) {
  std::vector<io::FileRange> ranges;
  ranges.reserve(tensors.size());
  for (const std::size_t index : tensors) {
    const Entry entry = catalog[index];
    if (!entry.is_splat() && entry.bytes != 0) ranges.push_back({entry.file, entry.offset, entry.bytes});
  }
  std::ranges::sort(ranges, {}, [](const auto& range) { return std::tuple(range.file, range.offset); });
  // Tensors may share bytes, so the end that counts is the furthest.
  std::size_t merged = 0;
  for (const auto& range : ranges) {
    auto* const last = merged == 0 ? nullptr : &ranges[merged - 1];
    if (last != nullptr && last->file == range.file &&
        range.offset <= checked::add(end_of(*last), gap_bytes).value_or(UINT64_MAX)) {
      last->bytes = std::max(end_of(*last), end_of(range)) - last->offset;
    } else {
      ranges[merged++] = range;
    }
  }
  ranges.resize(merged);
  return ranges;
}

std::string name_at(const Catalog& catalog, std::size_t file, std::uint64_t offset) {
  for (const Entry& entry : catalog) {
    if (entry.is_splat() || entry.file != file) continue;
    if (entry.offset <= offset && offset - entry.offset < entry.bytes) return std::string(entry.name);
  }
  return {};
}

}  // namespace ht::inline v1
