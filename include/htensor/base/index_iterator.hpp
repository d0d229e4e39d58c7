// Iterators over containers whose `operator[]` returns values: catalogs, metadata, models.
#pragma once

#include <compare>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

/// A random-access iterator over `container[0]`, `container[1]`, … The container must outlive the iterator
/// and must not move.
template <class Container>
class IndexIterator {
 public:
  using value_type = std::remove_cvref_t<decltype(std::declval<const Container&>()[std::size_t{0}])>;
  using difference_type = std::ptrdiff_t;
  using reference = value_type;
  using iterator_concept = std::random_access_iterator_tag;
  // Pre-C++20 algorithms require a true reference from every category above input iterator.
  using iterator_category = std::input_iterator_tag;

  IndexIterator() = default;
  IndexIterator(const Container& container, std::size_t index) noexcept
      : container_(&container), index_(static_cast<std::ptrdiff_t>(index)) {}

  [[nodiscard]] value_type operator*() const { return (*container_)[static_cast<std::size_t>(index_)]; }
  [[nodiscard]] value_type operator[](std::ptrdiff_t n) const { return *(*this + n); }

  IndexIterator& operator++() noexcept { return *this += 1; }
  IndexIterator& operator--() noexcept { return *this -= 1; }
  IndexIterator operator++(int) noexcept {
    auto before = *this;
    ++*this;
    return before;
  }
  IndexIterator operator--(int) noexcept {
    auto before = *this;
    --*this;
    return before;
  }
  IndexIterator& operator+=(std::ptrdiff_t n) noexcept {
    index_ += n;
    return *this;
  }
  IndexIterator& operator-=(std::ptrdiff_t n) noexcept { return *this += -n; }
  friend IndexIterator operator+(IndexIterator at, std::ptrdiff_t n) noexcept { return at += n; }
  friend IndexIterator operator+(std::ptrdiff_t n, IndexIterator at) noexcept { return at += n; }
  friend IndexIterator operator-(IndexIterator at, std::ptrdiff_t n) noexcept { return at -= n; }
  friend std::ptrdiff_t operator-(const IndexIterator& a, const IndexIterator& b) noexcept {
    return a.index_ - b.index_;
  }
  friend bool operator==(const IndexIterator& a, const IndexIterator& b) noexcept {
    return a.index_ == b.index_;
  }
  friend auto operator<=>(const IndexIterator& a, const IndexIterator& b) noexcept {
    return a.index_ <=> b.index_;
  }

 private:
  const Container* container_ = nullptr;
  std::ptrdiff_t index_ = 0;
};

}  // namespace ht::inline v1
