// Selections of the elements of a tensor as nested loops over positions. They do not depend on types and
// files.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/model/any_tensor.hpp>
#include <span>
#include <vector>

namespace ht::inline v1 {

/// Positions of elements, in the order of the result.
struct Selection {
  struct Loop {
    std::int64_t count = 0;
    std::int64_t step = 0;  // in elements; may be negative
  };

  std::int64_t first = 0;   // position of the first element
  std::int64_t count = 0;   // elements of the result
  std::vector<Loop> loops;  // outermost first; adjacent loops that continue each other are merged

  /// Whether the elements follow each other in storage.
  [[nodiscard]] bool is_contiguous() const noexcept {
    return loops.empty() || (loops.size() == 1 && loops[0].step == 1);
  }
  /// Whether the selection consists of whole units of this many elements, each in its stored order.
  [[nodiscard]] bool has_whole_units(std::int64_t unit_elements) const noexcept;
};

/// Selects elements of a tensor whose first element is at position `first`. One slice per dimension.
/// `out_of_bounds` for a slice that `layout::count_slice` refuses.
[[nodiscard]] Result<Selection> select_elements(std::span<const std::int64_t> dims,
                                                std::span<const std::int64_t> strides, std::int64_t first,
                                                std::span<const AnyTensor::Slice> slices);

/// Iterates over the runs of a selection. A run is one pass of the innermost loop.
class SelectionRuns {
 public:
  /// Starts at element `first` of the result. The selection must outlive this object.
  SelectionRuns(const Selection& selection, std::int64_t first);

  /// The position of the next element.
  [[nodiscard]] std::int64_t position() const noexcept { return position_; }
  /// The distance to the next position of the run; may be negative.
  [[nodiscard]] std::int64_t step() const noexcept { return loops_.empty() ? 1 : loops_.back().step; }
  /// The number of elements up to the end of the run.
  [[nodiscard]] std::int64_t remaining() const noexcept {
    return loops_.empty() ? 1 : loops_.back().count - index_.back();
  }
  /// Skips `elements` elements, at most `remaining()`.
  void advance(std::int64_t elements) noexcept;

 private:
  std::span<const Selection::Loop> loops_;
  std::vector<std::int64_t> index_;
  std::int64_t position_;
};

/// The positions [begin, end).
struct PositionRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Returns a range that contains the positions of `count` elements of the result from element `first` on.
/// `count` must not be 0.
[[nodiscard]] PositionRange bounds_of(const Selection& selection, std::int64_t first, std::int64_t count);

}  // namespace ht::inline v1
