// Glob patterns for tensor names, as in shells.
//
//   *        zero or more characters              [a-z]    one character of the set
//   ?        one character                        [!a-z]   one character outside the set, also [^a-z]
//   {a,b*}   one of the alternatives, each a      \x       the character x itself
//            pattern; braces may nest
//
// A pattern must match the whole name. Characters are UTF-8 characters; each byte of malformed UTF-8 counts
// as one character. Dots, slashes and NUL are ordinary characters. Classes such as `[:digit:]` are not
// supported.
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
/// The constructor compiles the patterns. Functions that take a filter first return the Error of `check()`,
/// so a filter can be constructed in place: `model.prefetch("blk.{0,1}.*")`.
class NameFilter {
 public:
  /// Matches every name.
  NameFilter() noexcept = default;

  /// Matches the names that the pattern matches.
  template <std::convertible_to<std::string_view> Text>
  NameFilter(const Text& pattern)  // NOLINT(google-explicit-constructor): a pattern is a filter
      : NameFilter(std::vector{std::string(std::string_view(pattern))}) {}

  explicit NameFilter(std::vector<std::string> include, std::vector<std::string> exclude = {});

  /// `bad_state` for the first malformed pattern: an unclosed bracket or brace, a backslash at the end, or
  /// braces that expand to more than 1024 patterns.
  [[nodiscard]] Result<void> check() const;

  /// Whether the filter selects the name; false if `check()` fails. For each alternative, time is at most
  /// proportional to the product of the lengths of pattern and name.
  [[nodiscard]] bool matches(std::string_view name) const noexcept;

  /// Whether the filter matches every name.
  [[nodiscard]] bool is_everything() const noexcept;

  /// The Error for a model in which no name matches: `not_found`, with the patterns in its message.
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
