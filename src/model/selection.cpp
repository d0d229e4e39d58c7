#include "model/selection.hpp"

#include <algorithm>
#include <htensor/tensor/shape.hpp>

namespace ht::inline v1 {

bool Selection::has_whole_units(std::int64_t unit_elements) const noexcept {
  if (count == 0) return true;
  if (loops.empty()) return unit_elements == 1;
  const auto is_whole = [&](std::int64_t elements) { return elements % unit_elements == 0; };
  return is_whole(first) && loops.back().step == 1 && is_whole(loops.back().count) &&
         std::all_of(loops.begin(), loops.end() - 1, [&](const Loop& loop) { return is_whole(loop.step); });
}

Result<Selection> select_elements(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides,
                                  std::int64_t first, std::span<const AnyTensor::Slice> slices) {
  std::vector<std::int64_t> counts(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i)
    counts[i] = HT_TRY(layout::count_slice(dims[i], slices[i].start, slices[i].stop, slices[i].step));
  // If a count is 0, the product of the other extents may exceed 2^63-1.
  if (std::ranges::find(counts, 0) != counts.end()) return Selection{};
  Selection selection{.first = first, .count = 1, .loops = {}};
  selection.loops.reserve(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto& [start, stop, step] = slices[i];
    const std::int64_t count = counts[i];
    selection.count *= count;
    selection.first += start * strides[i];
    if (count == 1) continue;
    // With two elements or more, the step is smaller than the extent, so the product does not overflow.
    const Selection::Loop loop{count, step * strides[i]};
    auto& loops = selection.loops;
    if (!loops.empty() && loops.back().step == loop.count * loop.step) {
      loops.back() = {loops.back().count * loop.count, loop.step};
    } else {
      loops.push_back(loop);
    }
  }
  return selection;
}

SelectionRuns::SelectionRuns(const Selection& selection, std::int64_t first)
    : loops_(selection.loops), index_(loops_.size()), position_(selection.first) {
  for (std::size_t i = loops_.size(); i-- > 0;) {
    index_[i] = first % loops_[i].count;
    position_ += index_[i] * loops_[i].step;
    first /= loops_[i].count;
  }
}

void SelectionRuns::advance(std::int64_t elements) noexcept {
  if (loops_.empty()) return;
  index_.back() += elements;
  position_ += elements * loops_.back().step;
  // Counts like an odometer, the last loop first.
  for (std::size_t i = loops_.size() - 1; index_[i] == loops_[i].count; --i) {
    position_ -= loops_[i].count * loops_[i].step;
    index_[i] = 0;
    if (i == 0) break;
    ++index_[i - 1];
    position_ += loops_[i - 1].step;
  }
}

PositionRange bounds_of(const Selection& selection, std::int64_t first, std::int64_t count) {
  PositionRange bounds{selection.first, selection.first + 1};
  const auto extend = [&](std::int64_t by) { (by < 0 ? bounds.begin : bounds.end) += by; };
  const auto& loops = selection.loops;
  if (loops.empty()) return bounds;
  std::int64_t inner = 1;
  for (std::size_t i = loops.size(); i-- > 1;) {
    inner *= loops[i].count;
    extend((loops[i].count - 1) * loops[i].step);
  }
  const std::int64_t from = first / inner;
  const std::int64_t to = (first + count - 1) / inner;
  bounds.begin += from * loops[0].step;
  bounds.end += from * loops[0].step;
  extend((to - from) * loops[0].step);
  return bounds;
}

}  // namespace ht::inline v1
