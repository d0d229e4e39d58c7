#include <htensor/base/glob.hpp>

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <optional>

namespace ht::inline v1 {
namespace {

using Text = std::string_view;

// Takes the character at the front off.
Text take(Text& text) noexcept {
  const Text front = text.substr(0, std::max<std::size_t>(character_bytes(text), 1));
  text.remove_prefix(front.size());
  return front;
}

// Takes a character that means itself, with the backslash before it if there is one. Empty, which is no
// character, where nothing follows the backslash.
Text take_literal(Text& pattern) noexcept {
  if (pattern.starts_with('\\')) pattern.remove_prefix(1);
  return take(pattern);
}

// Takes a set of characters and the bracket that closes it; the one that opens it is taken already. Tells
// whether the character is one that is meant, or nothing where no bracket closes the set.
std::optional<bool> take_set(Text& pattern, Text character) noexcept {
  const bool others = pattern.starts_with('!') || pattern.starts_with('^');
  if (others) pattern.remove_prefix(1);
  bool found = false;
  // A bracket that comes first is one of the set.
  for (bool first = true; first || !pattern.starts_with(']'); first = false) {
    if (pattern.empty()) return std::nullopt;
    const Text low = take_literal(pattern);
    Text high = low;
    if (pattern.size() > 1 && pattern[0] == '-' && pattern[1] != ']') {
      pattern.remove_prefix(1);
      high = take_literal(pattern);
    }
    // The bytes of UTF-8 are in the order of the characters.
    found = found || (low <= character && character <= high);
  }
  pattern.remove_prefix(1);
  return found != others;
}

class Matcher {
 public:
  // Takes what stands for one character off the pattern, and that character off the text.
  bool step(Text& pattern, Text& text) noexcept {
    const Text character = take(text);
    if (pattern.starts_with('?')) {
      pattern.remove_prefix(1);
      return true;
    }
    if (pattern.starts_with('[') && pattern.size() > unclosed_) {
      Text behind = pattern.substr(1);
      if (const auto meant = take_set(behind, character)) {
        pattern = behind;
        return *meant;
      }
      unclosed_ = pattern.size();
    }
    return take_literal(pattern) == character;
  }

 private:
  // What closes a bracket would also close one before it: where one is not closed, none behind it is. So
  // many bytes are left there, and what is behind is searched once and not again for each bracket.
  std::size_t unclosed_ = 0;
};

}  // namespace

bool glob_matches(Text pattern, Text text) noexcept {
  Matcher matcher;
  // What is behind the last star, and where it was tried: if that fails, the star takes one character more.
  // Those before it need not take more, as all that they could leave this one can take itself.
  std::optional<Text> behind_star;
  Text tried;
  for (;;) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      behind_star = pattern;
      tried = text;
    } else if (text.empty()) {
      // A star that takes more leaves less for the rest.
      return pattern.empty();
    } else if (pattern.empty() || !matcher.step(pattern, text)) {
      if (!behind_star) return false;
      take(tried);
      pattern = *behind_star;
      text = tried;
    }
  }
}

}  // namespace ht::inline v1
