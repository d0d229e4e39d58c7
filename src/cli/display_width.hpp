// How many columns of a terminal text takes, whatever the locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ht::cli {

/// Removes the first character from well-formed UTF-8 and returns it. The text must not be empty.
[[nodiscard]] char32_t take_character(std::string_view& text) noexcept;

/// Columns of printable, well-formed UTF-8: 2 for wide characters such as CJK and emoji, 0 for combining
/// marks, else 1.
[[nodiscard]] std::size_t display_width(std::string_view text) noexcept;

/// Printable text in at most this many columns: the middle is replaced by `…` where the text is wider. No
/// character is separated from its combining marks.
[[nodiscard]] std::string shorten_middle(std::string_view text, std::size_t columns);

/// The columns of a text and of the text behind it, of these widths, where both have to fit into `columns`:
/// the second one is shortened first, down to half of them.
struct SharedColumns {
  std::size_t first;
  std::size_t second;
};
[[nodiscard]] SharedColumns share_columns(std::size_t first, std::size_t second,
                                          std::size_t columns) noexcept;

/// Columns of the terminal behind the descriptor: its own answer, else the variable COLUMNS, else 80. 0 where
/// the descriptor is not a terminal.
[[nodiscard]] std::size_t terminal_columns(int descriptor);

}  // namespace ht::cli
