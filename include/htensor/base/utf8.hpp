// Text that may not be UTF-8, made printable.
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

}  // namespace ht::inline v1
