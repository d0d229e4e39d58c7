// Text from files and users: checked, made printable, quoted for JSON.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ht::inline v1 {

/// Whether the text is well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// The bytes of the well-formed character that the text begins with, 0 where it begins with none.
[[nodiscard]] std::size_t character_bytes(std::string_view text) noexcept;

/// The text with each byte that is no part of a well-formed character replaced by U+FFFD.
[[nodiscard]] std::string to_utf8(std::string_view text);

/// Names for a message, made well-formed: "a, b". Ten at most, then the number of others: "… and 3 more".
[[nodiscard]] std::string name_list(std::span<const std::string> names);

/// Appends the text with its quotes: quotes, backslashes and control characters are escaped, everything else
/// is kept, as serde writes it. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// What is wrong with a path that has to name a file below the folder that it is relative to, for instance
/// "is absolute"; nothing where it is well. Only its words are looked at: links on the way are the user's own
/// and are followed, as Hugging Face's cache needs it.
[[nodiscard]] std::string_view path_fault(std::string_view path) noexcept;

}  // namespace ht::inline v1
