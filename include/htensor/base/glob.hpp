// The pattern language of shells, for names.
#pragma once

#include <string_view>

namespace ht::inline v1 {

/// Whether the pattern matches all of the text. `*` is any characters, `?` is one, `[a-z]` one of these and
/// `[!a-z]` or `[^a-z]` one of all others; a backslash takes its meaning from what follows it, and a bracket
/// that is not closed means itself. As `fnmatch` has it without flags, but for classes such as `[:digit:]`,
/// which are not known. Characters are those of UTF-8, and a byte that is no part of one is one of its own;
/// no character is special, a dot, a slash and NUL included. It takes at most the product of both lengths.
[[nodiscard]] bool glob_matches(std::string_view pattern, std::string_view text) noexcept;

}  // namespace ht::inline v1
