// Text from files and users: UTF-8 validation, repair and JSON quoting.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ht::inline v1 {

/// Whether the text is well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;

/// The size in bytes of the first character of the text; 0 if the text does not start with well-formed UTF-8.
[[nodiscard]] std::size_t character_bytes(std::string_view text) noexcept;

/// The text with each byte outside of well-formed characters replaced by U+FFFD.
[[nodiscard]] std::string to_utf8(std::string_view text);

/// Lists names for a message, as valid UTF-8: "a, b". At most ten, then the number of others: "… and 3 more".
[[nodiscard]] std::string name_list(std::span<const std::string> names);

/// Appends the text as a quoted JSON string, as serde_json formats it: quotes, backslashes and control
/// characters are escaped, all other characters are kept. Bytes that are not UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);

/// Checks that a relative path names a file inside its base folder. Returns an empty text if the path is
/// valid, else the problem, for instance "is absolute". Checks the text only: symbolic links belong to the
/// user and are followed, because the Hugging Face cache uses them.
[[nodiscard]] std::string_view path_problem(std::string_view path) noexcept;

}  // namespace ht::inline v1
