// Patterns that select tensors by name, as in shells. This header also has IndexIterator, the iterator of
// Catalog, Metadata and Model.
//
//   *        zero or more characters              [a-z]    one character of the set
//   ?        one character                        [!a-z]   one character outside the set, also [^a-z]
//   {a,b*}   one of the alternatives, each a      \x       the character x itself
//            pattern; braces may nest
//
// A pattern must match the whole name. Characters are UTF-8 characters; each byte of malformed UTF-8 counts
// as one character. Dots, slashes and NUL are ordinary characters. Matching is case-sensitive. A range such
// as `[a-z]` is in the order of code points; a `]` at the first position is a member of the set. Classes such
// as `[:digit:]` are not supported.
//
//   HT_TRY(ht::prefetch(model, "blk.{0,1}.*"));
//   const ht::NameFilter weights({"blk.*"}, {"*.bias"});              // included, excluded
//   if (weights.matches(name)) use(name);
//
// Ownership and threads: a NameFilter is a value that owns copies of its patterns. Many threads may use a
// const NameFilter.
//
// Cost and errors: constructors from patterns allocate memory and may throw std::bad_alloc. `matches`
// allocates nothing. A malformed pattern is the Error of `check`, not of the constructor.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ht::inline v1 {

/// Selects names: a name matches if one of the `include` patterns matches it and no `exclude` pattern does.
/// Without `include` patterns every name is included.
///
/// The constructor compiles the patterns. Functions that take a filter call `check()` first and return its
/// Error, so a filter can be constructed in the call.
class NameFilter {
 public:
  /// Matches every name.
  NameFilter() noexcept = default;

  /// Matches the names that the pattern matches.
  template <std::convertible_to<std::string_view> Text>
  NameFilter(const Text& pattern)  // NOLINT(google-explicit-constructor): a pattern is a filter
      : NameFilter(std::vector{std::string(std::string_view(pattern))}) {}

  /// Matches the names that an `include` pattern matches and no `exclude` pattern. An empty `include` matches
  /// every name. `exclude` takes precedence.
  explicit NameFilter(std::vector<std::string> include, std::vector<std::string> exclude = {});

  /// `bad_state` for the first malformed pattern: an unclosed bracket or brace, a backslash at the end,
  /// braces that expand to more than 1024 patterns, or braces in a pattern of more than 4096 bytes.
  [[nodiscard]] Result<void> check() const;

  /// Whether the filter selects the name; false if `check()` fails. The time for each alternative is at most
  /// proportional to the product of the lengths of pattern and name.
  [[nodiscard]] bool matches(std::string_view name) const noexcept;

  /// Whether the filter has no `exclude` pattern, and either no `include` pattern or the `include` pattern
  /// `*`. Other filters that match every name, such as `**`, are not recognised.
  [[nodiscard]] bool is_everything() const noexcept;

  /// The Error for a model without a matching name: `not_found`, with the patterns in its message.
  [[nodiscard]] Error no_match() const;

 private:
  struct Patterns {
    std::vector<std::string> given;
    std::vector<std::string> expanded;  // without braces

    [[nodiscard]] bool match(std::string_view name) const noexcept;
  };
  void compile(Patterns& patterns);

  Patterns include_;
  Patterns exclude_;
  std::optional<Error> error_;
};

/// The pattern that matches this name and no other: escapes the special characters. For programs that pass a
/// name from a file to a NameFilter. May throw std::bad_alloc.
[[nodiscard]] std::string escape_glob(std::string_view name);

}  // namespace ht::inline v1

// Iterators over containers whose `operator[]` returns values: catalogs, metadata, models.

namespace ht::inline v1::detail {

/// A random-access iterator over `container[0]`, `container[1]`, … The container must outlive the iterator
/// and must not move. Dereferencing returns a value, so `&*it` and `it->` do not compile; use `for (const
/// auto& x : …)` or `auto x = *it`. Iterators of different containers are not comparable.
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

}  // namespace ht::inline v1::detail
