// Formatting of sizes, counts, JSON, and names that are safe to print on a terminal.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <htensor/htensor.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ht::cli {

/// Parses "4K", "16M", "2.5G", "1T" in powers of 1024, or plain bytes.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);
/// The inverse, with at most one digit after the point.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// For sentences: "24 bytes" below 1024, else as `size_text`.
[[nodiscard]] std::string byte_count_text(std::uint64_t bytes);
/// Has room for every text that `write_size` writes.
using SizeBuffer = std::array<char, 8>;
/// Writes the text of `size_text` into a buffer and returns its length.
[[nodiscard]] std::size_t write_size(SizeBuffer& out, std::uint64_t bytes) noexcept;
/// Decimal digits of the number.
[[nodiscard]] std::size_t digit_count(std::uint64_t number) noexcept;

/// A count: exact below 1000, else three significant digits and K, M, B or T, such as "1.24 B".
[[nodiscard]] std::string count_text(std::uint64_t count);

/// Whether all characters are printable ASCII: the text is shown unchanged, and its width is its length.
[[nodiscard]] bool is_plain(std::string_view text) noexcept;
/// Whether the text is plain and needs no escape in JSON.
[[nodiscard]] bool is_plain_json(std::string_view text) noexcept;

/// The text with control and direction characters escaped, so that it can neither move a cursor nor reorder a
/// line. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string printable(std::string_view text);
/// The printable name, '' for an empty one.
[[nodiscard]] std::string name_text(std::string_view name);

/// Removes the first character from well-formed UTF-8 and returns it. The text must not be empty.
[[nodiscard]] char32_t take_character(std::string_view& text) noexcept;
/// Columns of printable, well-formed UTF-8 in a terminal, whatever the locale: 2 for wide characters such as
/// CJK and emoji, 0 for combining marks, else 1.
[[nodiscard]] std::size_t display_width(std::string_view text) noexcept;
/// Printable text in at most this many columns: the middle is replaced by `…` if the text is wider. No
/// character is separated from its combining marks.
[[nodiscard]] std::string shorten_middle(std::string_view text, std::size_t columns);
/// The columns of a terminal that does not report them.
inline constexpr std::size_t default_columns = 80;
/// Columns of the terminal behind the descriptor: the reported width, else the variable COLUMNS, else 80. 0
/// if the descriptor is not a terminal.
[[nodiscard]] std::size_t terminal_columns(int descriptor);

/// Natural order of two names: numbers compare by value, "a.2" before "a.10". Names that differ only
/// in leading zeros compare as bytes, so that only equal names are equal.
[[nodiscard]] std::strong_ordering natural_order(std::string_view a, std::string_view b) noexcept;

/// "[4, 8]".
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> dims);

/// A JSON string with its quotes.
[[nodiscard]] std::string json_string(std::string_view text);
[[nodiscard]] std::string json_path(const std::filesystem::path& path);
/// A JSON string; null for an empty text.
[[nodiscard]] std::string json_or_null(std::string_view text);
/// A number or a boolean; null for nullopt.
template <class T>
[[nodiscard]] std::string json_or_null(const std::optional<T>& value) {
  return value ? fmt::to_string(*value) : "null";
}
/// `[…]` of the results of `to_json` for each element.
template <class List, class ToJson>
[[nodiscard]] std::string json_list(const List& list, const ToJson& to_json) {
  std::string out = "[";
  for (const auto& element : list) {
    if (out.size() > 1) out += ',';
    out += to_json(element);
  }
  return out += ']';
}
/// A string for one path, a list for several.
[[nodiscard]] std::string json_paths(std::span<const std::filesystem::path> paths);
/// The members of an error's object as in docs/cli.md, without its braces.
[[nodiscard]] std::string json_members(const Error& error);
/// A list of the errors' objects.
[[nodiscard]] std::string json_errors(std::span<const Error> errors);

/// Appends formatted text to a string or, with the overload in output.hpp, to an OutputBuffer. A
/// template would compile all of fmt in every file.
void vappend_text(std::string& out, fmt::string_view format, fmt::format_args args);

template <class Out, class... Args>
void append_text(Out& out, fmt::format_string<Args...> format, Args&&... args) {
  vappend_text(out, format, fmt::make_format_args(args...));
}

namespace detail {

template <class Out, std::floating_point T>
void append_number(Out& out, T value, bool quote_specials) {
  if (!std::isfinite(value)) {
    const std::string_view word = value != value ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    append_text(out, fmt::runtime(quote_specials ? "\"{}\"" : "{}"), word);
    return;
  }
  // JSON readers parse a bare -0 as an integer, which loses the sign.
  const bool negative_zero = value == T{0} && std::signbit(value);
  append_text(out, fmt::runtime(negative_zero ? "{:.1f}" : "{}"), value);
}

}  // namespace detail

/// Appends one element as text or JSON. In JSON, NaN and infinities are strings and complex numbers are
/// pairs.
template <class D, class Out>
void append_element(Out& out, typename D::Element value, bool json) {
  if constexpr (D::number.kind == NumberFacts::Kind::boolean) {
    append_text(out, "{}", static_cast<bool>(value));
  } else if constexpr (D::number.kind == NumberFacts::Kind::complex) {
    out += json ? '[' : '(';
    detail::append_number(out, value.real(), json);
    out += ',';
    detail::append_number(out, value.imag(), json);
    out += json ? ']' : ')';
  } else if constexpr (IsIntegral<D> && std::is_integral_v<typename D::Element>) {
    append_text(
        out, "{}",
        static_cast<std::conditional_t<std::is_signed_v<typename D::Element>, std::int64_t, std::uint64_t>>(
            value));
  } else if constexpr (IsIntegral<D>) {
    append_text(out, "{}", static_cast<int>(value));
  } else if constexpr (std::same_as<D, F64>) {
    detail::append_number(out, value, json);
  } else {
    detail::append_number(out, static_cast<float>(value), json);
  }
}

}  // namespace ht::cli
