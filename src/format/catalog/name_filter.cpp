#include <htensor/format/names.hpp>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/format_text.hpp"
#include "base/utf8.hpp"

namespace ht::inline v1 {
namespace {

using Text = std::string_view;

constexpr std::size_t max_alternatives = 1024;
// Limit for patterns with braces. No alternative is longer than its pattern, so the limit bounds the memory
// of all alternatives.
constexpr std::size_t max_pattern_bytes = 4096;

// Removes the character at the front and returns it.
Text take(Text& text) noexcept {
  const bool is_ascii = !text.empty() && static_cast<unsigned char>(text.front()) < 0x80;
  const Text front = text.substr(0, is_ascii ? 1 : std::max<std::size_t>(character_bytes(text), 1));
  text.remove_prefix(front.size());
  return front;
}

// Removes a literal character and its escaping backslash, and returns the character; empty at the end of the
// text.
Text take_literal(Text& pattern) noexcept {
  if (pattern.starts_with('\\')) pattern.remove_prefix(1);
  return take(pattern);
}

// Removes a set up to its closing bracket; the opening one is removed already. Returns whether the set
// contains the character, or nullopt if the set is not closed.
std::optional<bool> take_set(Text& pattern, Text character) noexcept {
  const bool negated = pattern.starts_with('!') || pattern.starts_with('^');
  if (negated) pattern.remove_prefix(1);
  bool found = false;
  // A closing bracket at the first position is a member of the set.
  for (bool first = true; first || !pattern.starts_with(']'); first = false) {
    if (pattern.empty()) return std::nullopt;
    const Text low = take_literal(pattern);
    Text high = low;
    if (pattern.size() > 1 && pattern[0] == '-' && pattern[1] != ']') {
      pattern.remove_prefix(1);
      high = take_literal(pattern);
    }
    // UTF-8 bytes sort in the order of the code points.
    found = found || (low <= character && character <= high);
  }
  pattern.remove_prefix(1);
  return found != negated;
}

// Removes one character of the text and the pattern part that has to match it. Returns whether they match.
bool step(Text& pattern, Text& text) noexcept {
  const Text character = take(text);
  if (pattern.starts_with('?')) {
    pattern.remove_prefix(1);
    return true;
  }
  if (pattern.starts_with('[')) {
    pattern.remove_prefix(1);
    return take_set(pattern, character).value_or(false);
  }
  return take_literal(pattern) == character;
}

// Matches a well-formed pattern without braces against the whole text.
bool matches_whole(Text pattern, Text text) noexcept {
  // The pattern after the last star, and the text position where it was tried last. On a mismatch this star
  // takes one more character. Earlier stars need no retry: the part between two stars matched as early as
  // possible, and the last star can match any text after it.
  std::optional<Text> after_star;
  Text tried;
  for (;;) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      after_star = pattern;
      tried = text;
    } else if (text.empty()) {
      return pattern.empty();  // no retry: a longer match of the star leaves even less text
    } else if (pattern.empty() || !step(pattern, text)) {
      if (!after_star) return false;
      take(tried);
      pattern = *after_star;
      text = tried;
    }
  }
}

Error malformed(std::string_view rule, Text pattern, std::string_view problem, std::string_view hint) {
  return Error(ErrorCode::bad_state, rule, format_text("pattern '{}': {}", to_utf8(pattern), problem))
      .with_hint(hint);
}

// Checks a pattern and expands its braces, from left to right and without recursion.
class Expansion {
 public:
  explicit Expansion(Text pattern) : pattern_(pattern) {}

  Result<std::vector<std::string>> run() {
    for (Text rest = pattern_; !rest.empty();) {
      const Text before = rest;
      const char front = take(rest).front();
      const bool in_braces = groups_.size() > 1;
      if (front == '{') {
        HT_TRY(open());
        continue;
      }
      if (in_braces && front == ',') {
        HT_TRY(end_alternative());
        continue;
      }
      if (in_braces && front == '}') {
        HT_TRY(close());
        continue;
      }
      if (front == '\\' && take(rest).empty()) {
        return fail(malformed("escape_is_followed_by_a_character", pattern_,
                              "nothing follows the backslash at its end",
                              R"(write \\ to match a backslash)"));
      }
      if (front == '[' && !take_set(rest, {})) {
        return fail(malformed("bracket_is_closed", pattern_, "the bracket [ is not closed",
                              R"(add the ], or write \[ to match a bracket)"));
      }
      for (auto& text : groups_.back().current) text += before.substr(0, before.size() - rest.size());
    }
    if (groups_.size() > 1) {
      return fail(malformed("brace_is_closed", pattern_, "the brace { is not closed",
                            R"(add the }, or write \{ to match a brace)"));
    }
    return std::move(groups_.back().current);
  }

 private:
  // A pair of braces. `finished` has the expansions of the alternatives that were read to their end.
  // `current` has the expansions of the alternative that is being read: several if it contains braces. The
  // first group is the pattern itself.
  struct Group {
    std::vector<std::string> finished;
    std::vector<std::string> current{std::string()};
  };

  Result<void> open() {
    if (pattern_.size() > max_pattern_bytes) return fail(too_many());
    groups_.emplace_back();
    return {};
  }

  Result<void> end_alternative() {
    auto& [finished, current] = groups_.back();
    if (finished.size() + current.size() > max_alternatives) return fail(too_many());
    std::ranges::move(current, std::back_inserter(finished));
    current.assign(1, std::string());
    return {};
  }

  // Ends a group: appends each of its alternatives to each current text of the enclosing group.
  Result<void> close() {
    HT_TRY(end_alternative());
    const auto alternatives = std::move(groups_.back().finished);
    groups_.pop_back();
    auto& current = groups_.back().current;
    if (current.size() * alternatives.size() > max_alternatives) return fail(too_many());
    std::vector<std::string> continued;
    continued.reserve(current.size() * alternatives.size());
    for (const auto& text : current) {
      for (const auto& alternative : alternatives) continued.push_back(text + alternative);
    }
    current = std::move(continued);
    return {};
  }

  [[nodiscard]] Error too_many() const {
    return malformed(
        "braces_expand_within_limit", pattern_,
        format_text("its braces expand to more than {} patterns, or the pattern has more than {} bytes",
                    max_alternatives, max_pattern_bytes),
        "replace some of the braces by *, or pass several patterns");
  }

  Text pattern_;
  std::vector<Group> groups_{Group{}};
};

// One pattern in quotes, or a list.
std::string listed(std::span<const std::string> patterns) {
  return patterns.size() == 1 ? format_text("'{}'", to_utf8(patterns.front())) : name_list(patterns);
}

}  // namespace

NameFilter::NameFilter(std::vector<std::string> include, std::vector<std::string> exclude) {
  include_.given = std::move(include);
  exclude_.given = std::move(exclude);
  compile(include_);
  compile(exclude_);
  // "*" matches every name, as an empty filter does; the empty filter costs nothing to match.
  if (std::ranges::find(include_.given, "*") != include_.given.end()) include_ = {};
}

void NameFilter::compile(Patterns& patterns) {
  for (const auto& pattern : patterns.given) {
    auto expanded = Expansion(pattern).run();
    if (expanded) {
      std::ranges::move(*expanded, std::back_inserter(patterns.expanded));
    } else if (!error_) {
      error_ = std::move(expanded).error();
    }
  }
}

Result<void> NameFilter::check() const {
  if (error_) return fail(*error_);
  return {};
}

bool NameFilter::Patterns::match(std::string_view name) const noexcept {
  return std::ranges::any_of(expanded, [&](Text pattern) { return matches_whole(pattern, name); });
}

bool NameFilter::matches(std::string_view name) const noexcept {
  if (is_everything()) return true;
  return !error_ && (include_.given.empty() || include_.match(name)) && !exclude_.match(name);
}

bool NameFilter::is_everything() const noexcept {
  return include_.given.empty() && exclude_.given.empty() && !error_;
}

Error NameFilter::no_match() const {
  std::string message;
  if (include_.given.empty()) {
    message = format_text("every tensor is excluded by {}", listed(exclude_.given));
  } else {
    message = format_text("no tensor matches {}", listed(include_.given));
    if (!exclude_.given.empty()) message += format_text(" without matching {}", listed(exclude_.given));
  }
  return Error(ErrorCode::not_found, "filter_matches_a_tensor", std::move(message))
      .with_hint("list the names with `htensor ls`; * matches any characters");
}

std::string escape_glob(std::string_view name) {
  std::string pattern;
  for (const char c : name) {
    if (Text("*?[{\\").find(c) != Text::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace ht::inline v1
