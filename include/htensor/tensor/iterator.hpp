// Iteration over the elements of strided views in row-major order: one by one, or in runs for inner loops.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

/// Holds extents and strides by value, so it may outlive its tensor. It does not keep the bytes alive.
template <class Pointer, int N>
class ElementIterator {
 public:
  using Array = std::array<std::int64_t, static_cast<std::size_t>(N)>;
  using reference = decltype(*std::declval<const Pointer&>());
  using value_type = std::iter_value_t<Pointer>;
  using difference_type = std::int64_t;
  using iterator_category =
      std::conditional_t<std::is_reference_v<reference>, std::forward_iterator_tag, std::input_iterator_tag>;
  using iterator_concept = std::forward_iterator_tag;

  ElementIterator() = default;
  ElementIterator(Pointer first, const Array& extents, const Array& strides, std::int64_t position) noexcept
      : at_(first), extents_(extents), strides_(strides), position_(position) {}

  [[nodiscard]] reference operator*() const noexcept { return *at_; }

  ElementIterator& operator++() noexcept {
    ++position_;
    for (int d = N - 1; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      if (++index_[i] < extents_[i]) {
        at_ = at_ + strides_[i];
        return *this;
      }
      // Back to index 0 of this dimension; then increment the next outer dimension.
      at_ = at_ + strides_[i] * (1 - extents_[i]);
      index_[i] = 0;
    }
    return *this;
  }
  ElementIterator operator++(int) noexcept {
    ElementIterator before = *this;
    ++*this;
    return before;
  }

  friend bool operator==(const ElementIterator& a, const ElementIterator& b) noexcept {
    return a.position_ == b.position_;
  }

 private:
  Pointer at_{};
  Array extents_{};
  Array strides_{};
  Array index_{};
  std::int64_t position_ = 0;
};

namespace detail {

/// Elements of `Views` views of one shape that one loop can visit: in view v, the elements
/// `offsets[v] + i * strides[v]` for 0 ≤ i < `count`.
template <std::size_t Views>
struct Run {
  std::int64_t count = 1;
  std::array<std::int64_t, Views> offsets{};
  std::array<std::int64_t, Views> strides{};

  [[nodiscard]] bool is_contiguous() const noexcept {
    return std::ranges::all_of(strides, [](std::int64_t stride) { return stride == 1; });
  }
};

/// Calls `visit(run)` for all elements of views that have the same extents, in row-major order, with runs as
/// long as the strides of all views allow. Contiguous views are one run.
template <std::size_t N, class Visit, class... Strides>
void for_each_run(const std::array<std::int64_t, N>& extents, Visit visit, const Strides&... of_views) {
  constexpr std::size_t views = sizeof...(of_views);
  const std::array<std::array<std::int64_t, N>, views> strides{of_views...};
  if (std::ranges::find(extents, 0) != extents.end()) return;
  Run<views> run;
  run.strides.fill(1);
  std::size_t outer = N;  // the outer loop below iterates over dimensions [0, outer)
  for (; outer > 0; --outer) {
    const std::size_t d = outer - 1;
    if (extents[d] == 1) continue;
    bool extends = true;
    for (std::size_t v = 0; v < views; ++v) {
      if (run.count == 1) run.strides[v] = strides[v][d];
      extends = extends && strides[v][d] == run.strides[v] * run.count;
    }
    if (!extends) break;
    run.count *= extents[d];
  }
  std::array<std::int64_t, N> index{};
  while (true) {
    visit(std::as_const(run));
    std::size_t d = outer;
    for (; d > 0; --d) {
      const bool is_last = ++index[d - 1] == extents[d - 1];
      for (std::size_t v = 0; v < views; ++v)
        run.offsets[v] += strides[v][d - 1] * (is_last ? 1 - extents[d - 1] : 1);
      if (!is_last) break;
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace detail

}  // namespace ht::inline v1
