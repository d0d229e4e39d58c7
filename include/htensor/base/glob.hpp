// Patterns for tensor names, in the language of shells.
//
//   *        any characters, also none            [a-z]    one character of the set
//   ?        one character                        [!a-z]   one character outside the set, also [^a-z]
//   {a,b*}   one of the alternatives, each a      \x       the character x itself
//            pattern; braces may nest
//
// A pattern matches all of a name. Characters are those of UTF-8; a byte outside of a well-formed character
// counts as one. Dots, slashes and NUL are ordinary characters. Classes such as `[:digit:]` do not exist.
#pragma once

#include <concepts>
#include <htensor/base/result.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

/// Selects names: a name matches if one of the `include` patterns matches it and no `exclude` pattern does.
/// Without `include` patterns every name is included.
///
/// Patterns are compiled once, here. Functions that take a filter return its `check()` first, so a filter can
/// be made in place: `model.prefetch("blk.{0,1}.*")`.
class NameFilter {
 public:
  /// Matches every name.
  NameFilter() noexcept = default;

  /// Matches the names that one pattern matches.
  template <std::convertible_to<std::string_view> Text>
  NameFilter(const Text& pattern)  // NOLINT(google-explicit-constructor): a pattern is a filter
      : NameFilter(std::vector{std::string(std::string_view(pattern))}) {}

  explicit NameFilter(std::vector<std::string> include, std::vector<std::string> exclude = {});

  /// `bad_state` for the first malformed pattern: an open bracket or brace, a backslash at the end, or braces
  /// that stand for more than 1024 patterns.
  [[nodiscard]] Result<void> check() const;

  /// Whether the filter selects the name; never for a filter that fails its check. Takes at most the product
  /// of both lengths for each alternative.
  [[nodiscard]] bool matches(std::string_view name) const noexcept;

  /// Whether every name matches.
  [[nodiscard]] bool is_everything() const noexcept;

  /// The Error of a model in which the filter selects nothing: `not_found`, with the patterns in its message.
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

/// The pattern that matches this name and no other.
[[nodiscard]] std::string escape_glob(std::string_view name);

}  // namespace ht::inline v1
