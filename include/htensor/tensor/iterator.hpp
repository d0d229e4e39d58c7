// Walks the elements of a strided view in row-major order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

namespace ht::inline v1 {

/// Holds its extents and strides by value, so it outlives the tensor it came from; the bytes do not.
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
      // Back to the first of this dimension; the one before it moves on.
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

}  // namespace ht::inline v1
