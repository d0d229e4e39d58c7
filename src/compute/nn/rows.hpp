// Rows of a strided view, and parallel loops over them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <htensor/base/work.hpp>
#include <htensor/compute/weights.hpp>
#include <vector>

#include "base/workers.hpp"

namespace ht::inline v1::nn {

/// Smaller inputs run on one thread.
inline constexpr std::int64_t min_parallel_elements = std::int64_t{1} << 17;

/// Splits `count` work items of about `elements_each` element operations and calls `body(first, last)` for
/// each part. `body` returns Result<void>; large work runs on several threads. Parts are independent, so the
/// result does not depend on the number of threads. Null workers select the library's pool.
template <class Body>
[[nodiscard]] Result<void> divide_work(std::int64_t count, std::int64_t elements_each, Workers* workers,
                                       const Body& body) {
  constexpr std::int64_t part_elements = min_parallel_elements / 2;
  const std::int64_t each = std::max<std::int64_t>(elements_each, 1);
  if (count == 0) return {};
  if (count <= min_parallel_elements / each || count == 1)
    return without_bad_alloc([&] { return body(std::int64_t{0}, count); });
  const std::int64_t part = std::max<std::int64_t>(part_elements / each, 1);
  return without_bad_alloc([&] {
    Jobs jobs;
    jobs.workers = workers;
    jobs.count = static_cast<std::size_t>((count + part - 1) / part);
    jobs.run = [&](std::size_t job, std::size_t) -> Result<void> {
      const auto first = static_cast<std::int64_t>(job) * part;
      return body(first, std::min(first + part, count));
    };
    return run_all(jobs);
  });
}

/// The rows of a view: its last dimension, for each index of the others.
template <class T>
class Rows {
 public:
  explicit Rows(const detail::HostView<T>& view) : view_(view) {
    if (view.extents.empty()) return;
    length_ = view.extents.back();
    stride_ = view.strides.back();
    for (const auto extent : view.extents.first(view.extents.size() - 1)) count_ *= extent;
  }

  [[nodiscard]] std::int64_t count() const noexcept { return length_ == 0 ? 0 : count_; }
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  /// Allocates the scratch memory for `row`; empty if rows are contiguous.
  [[nodiscard]] std::vector<T> make_scratch() const {
    return std::vector<T>(is_contiguous() ? 0 : static_cast<std::size_t>(length_));
  }
  /// Returns the elements of a row: in place, or gathered into the scratch memory.
  [[nodiscard]] const T* row(std::int64_t index, std::vector<T>& scratch) const noexcept {
    const T* from = view_.data;
    for (std::size_t d = view_.extents.size(); d-- > 1;) {
      from += index % view_.extents[d - 1] * view_.strides[d - 1];
      index /= view_.extents[d - 1];
    }
    if (is_contiguous()) return from;
    for (std::int64_t i = 0; i < length_; ++i) scratch[static_cast<std::size_t>(i)] = from[i * stride_];
    return scratch.data();
  }

 private:
  [[nodiscard]] bool is_contiguous() const noexcept { return stride_ == 1 || length_ <= 1; }

  const detail::HostView<T>& view_;
  std::int64_t count_ = 1;
  std::int64_t length_ = 1;
  std::int64_t stride_ = 1;
};

/// Calls `body(index, row)` for each row.
template <class T, class Body>
[[nodiscard]] Result<void> for_each_row(const detail::HostView<T>& view, Workers* workers, const Body& body) {
  const Rows<T> rows(view);
  return divide_work(rows.count(), rows.length(), workers,
                     [&](std::int64_t first, std::int64_t last) -> Result<void> {
                       auto scratch = rows.make_scratch();
                       for (std::int64_t index = first; index < last; ++index)
                         body(index, rows.row(index, scratch));
                       return {};
                     });
}

/// Calls `body(first, elements, count)` for pieces of all elements in row-major order, for operations that do
/// not depend on rows. A contiguous view is split into pieces of equal size, regardless of its shape.
template <class T, class Body>
[[nodiscard]] Result<void> for_each_piece(const detail::HostView<T>& view, Workers* workers,
                                          const Body& body) {
  if (!layout::is_row_major(view.extents, view.strides)) {
    const std::int64_t length = Rows<T>(view).length();
    return for_each_row(view, workers,
                        [&](std::int64_t index, const T* row) { body(index * length, row, length); });
  }
  std::int64_t elements = 1;
  for (const auto extent : view.extents) elements *= extent;
  return divide_work(elements, 1, workers, [&](std::int64_t first, std::int64_t last) -> Result<void> {
    body(first, view.data + first, last - first);
    return {};
  });
}

}  // namespace ht::inline v1::nn
