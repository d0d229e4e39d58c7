#include "cli/text.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <htensor/base/checked.hpp>
#include <htensor/base/json_text.hpp>
#include <htensor/base/utf8.hpp>
#include <iterator>

namespace ht::cli {
namespace {

constexpr std::string_view units = "KMGTPE";

// Characters that turn the direction of text around and can make a name look like another.
bool turns_direction(char32_t character) {
  return (character >= 0x202A && character <= 0x202E) || (character >= 0x2066 && character <= 0x2069) ||
         character == 0x200E || character == 0x200F;
}

// The character at the front of well-formed UTF-8, which is taken off.
char32_t take_character(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t character = bytes == 1 ? first : first & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    character = (character << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  text.remove_prefix(bytes);
  return character;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  // Whole numbers exactly; a double would round those above 2^53.
  std::uint64_t whole = 0;
  const auto [after_whole, error] = std::from_chars(begin, end, whole);
  if (error != std::errc{}) return std::nullopt;
  const char* rest = after_whole;
  double fraction = 0;
  if (rest != end && *rest == '.') {
    const auto parsed = std::from_chars(rest, end, fraction, std::chars_format::fixed);
    if (parsed.ec != std::errc{}) return std::nullopt;
    rest = parsed.ptr;
  }
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  int power = 0;
  if (!unit.empty()) {
    const auto found = units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front()))));
    if (found != std::string_view::npos) {
      power = static_cast<int>(10 * (found + 1));
      unit.remove_prefix(1);
    }
    if (!unit.empty() && unit != "B" && unit != "iB") return std::nullopt;
  }
  const auto bytes = checked::multiply(whole, std::uint64_t{1} << power);
  if (!bytes) return std::nullopt;
  return checked::add(*bytes, static_cast<std::uint64_t>(std::ldexp(fraction, power)));
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  // What would be shown as 1024 of a unit is 1 of the next.
  if (value >= 1023.5 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = std::abs(value - std::round(value)) < 0.05 || value >= 100;
  return whole ? fmt::format("{:.0f}{}", value, units[unit]) : fmt::format("{:.1f}{}", value, units[unit]);
}

std::string printable(std::string_view text) {
  const std::string clean = to_utf8(text);
  std::string_view rest = clean;
  std::string out;
  while (!rest.empty()) {
    const std::string_view before = rest;
    const char32_t character = take_character(rest);
    if (character == '\n') {
      out += "\\n";
    } else if (character == '\t') {
      out += "\\t";
    } else if (character < 0x20 || (character >= 0x7F && character < 0xA0) || turns_direction(character) ||
               character == 0x2028 || character == 0x2029) {
      out += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(character));
    } else {
      out += before.substr(0, before.size() - rest.size());
    }
  }
  return out;
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string shape_text(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string json_shape(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ","));
}

std::string json_error(const Error& error) {
  return fmt::format(R"({{"error":{{{}}}}})", json_members(error));
}

std::string json_members(const Error& error) {
  const auto or_null = [](std::string_view text) { return text.empty() ? "null" : json_string(text); };
  return fmt::format(R"("code":{},"rule":{},"path":{},"tensor":{},"offset":{},"message":{},"hint":{})",
                     json_string(to_string(error.code())), json_string(error.rule()), or_null(error.path()),
                     or_null(error.tensor()), error.offset() ? std::to_string(*error.offset()) : "null",
                     json_string(error.message()), or_null(error.hint()));
}

void vappend_text(std::string& out, fmt::string_view format, fmt::format_args args) {
  fmt::vformat_to(std::back_inserter(out), format, args);
}

void vappend_text(fmt::memory_buffer& out, fmt::string_view format, fmt::format_args args) {
  fmt::vformat_to(std::back_inserter(out), format, args);
}

}  // namespace ht::cli
