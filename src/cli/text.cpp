#include "cli/text.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <htensor/base/checked.hpp>
#include <htensor/base/utf8.hpp>
#include <iterator>

#include "cli/display_width.hpp"

namespace ht::cli {
namespace {

constexpr std::string_view units = "KMGTPE";

// Characters that change the direction of text and can make a name look like another.
bool changes_direction(char32_t character) {
  return (character >= 0x202A && character <= 0x202E) || (character >= 0x2066 && character <= 0x2069) ||
         character == 0x200E || character == 0x200F;
}

constexpr std::uint64_t each_byte(std::uint8_t byte) { return 0x0101'0101'0101'0101U * byte; }
constexpr std::uint64_t high_bits = each_byte(0x80);

// Whether a byte of the word is outside of 0x20 to 0x7E. Subtracting borrows and adding carries only out of
// bytes that are outside themselves.
constexpr bool has_unprintable(std::uint64_t word) {
  return (((word - each_byte(0x20)) | (word + each_byte(0x01)) | word) & high_bits) != 0;
}

// For words without high bits.
constexpr bool has_byte(std::uint64_t word, char byte) {
  const std::uint64_t zero_where_equal = word ^ each_byte(static_cast<std::uint8_t>(byte));
  return ((zero_where_equal - each_byte(0x01)) & ~zero_where_equal & high_bits) != 0;
}

// Whether a test that looks for bytes is false for all words of the text, the last one filled up with spaces.
template <class Test>
bool is_free_of(std::string_view text, const Test& test) {
  std::uint64_t word = 0;
  for (; text.size() >= sizeof(word); text.remove_prefix(sizeof(word))) {
    std::memcpy(&word, text.data(), sizeof(word));
    if (test(word)) return false;
  }
  word = each_byte(' ');
  text.copy(reinterpret_cast<char*>(&word), text.size());
  return !test(word);
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// The digits that the text begins with, without leading zeros; both are removed from the text.
std::string_view take_number(std::string_view& text) noexcept {
  const auto end = std::ranges::find_if_not(text, is_digit);
  auto digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
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

std::size_t write_size(SizeBuffer& out, std::uint64_t bytes) noexcept {
  const auto write = [&](std::uint64_t number) {
    return static_cast<std::size_t>(std::to_chars(out.data(), out.data() + out.size(), number).ptr -
                                    out.data());
  };
  if (bytes < 1024) return write(bytes);
  auto unit = static_cast<std::size_t>(std::bit_width(bytes) - 1) / 10;
  std::uint64_t one = std::uint64_t{1} << (10 * unit);
  // A value that would be shown as 1024 of a unit is 1 of the next.
  if (unit < units.size() && bytes >= one * 1023 + one / 2) {
    ++unit;
    one <<= 10;
    bytes = one;
  }
  std::uint64_t whole = bytes / one;
  std::uint64_t tenths = 0;
  if (whole >= 100) {
    whole += bytes % one >= one / 2 ? 1 : 0;
  } else {
    // At most 10, as rounding may make it a whole one.
    tenths = ((bytes % one) * 10 + one / 2) / one;
    whole += tenths / 10;
    tenths %= 10;
  }
  std::size_t length = write(whole);
  if (tenths != 0) {
    out[length++] = '.';
    out[length++] = static_cast<char>('0' + tenths);
  }
  out[length++] = units[unit - 1];
  return length;
}

std::string size_text(std::uint64_t bytes) {
  SizeBuffer buffer{};
  return {buffer.data(), write_size(buffer, bytes)};
}

std::string byte_count_text(std::uint64_t bytes) {
  if (bytes >= 1024) return size_text(bytes);
  return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
}

std::size_t digit_count(std::uint64_t number) noexcept {
  static constexpr auto powers = [] {
    std::array<std::uint64_t, 20> all{};
    std::uint64_t power = 1;
    for (auto& each : all) {
      each = power;
      power *= 10;
    }
    return all;
  }();
  // 1233 / 4096 is a little more than log10(2), so this is the number of digits or one less.
  const auto about = static_cast<std::size_t>(std::bit_width(number | 1) * 1233) >> 12;
  return about + (about < powers.size() && (number | 1) >= powers[about] ? 1 : 0);
}

std::string count_text(std::uint64_t count) {
  if (count < 1000) return std::to_string(count);
  constexpr std::string_view thousands = "KMBT";
  std::size_t unit = 0;
  std::uint64_t one = 1000;
  // Three digits would be rounded up to 1000 of the unit.
  while (unit + 1 < thousands.size() && count >= one * 1000 - one / 2) {
    ++unit;
    one *= 1000;
  }
  const auto value = static_cast<double>(count) / static_cast<double>(one);
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, thousands[unit]);
}

bool is_plain(std::string_view text) noexcept {
  return is_free_of(text, [](std::uint64_t word) { return has_unprintable(word); });
}

bool is_plain_json(std::string_view text) noexcept {
  return is_free_of(text, [](std::uint64_t word) {
    return has_unprintable(word) || has_byte(word, '"') || has_byte(word, '\\');
  });
}

std::string printable(std::string_view text) {
  if (is_plain(text)) return std::string(text);
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
    } else if (character < 0x20 || (character >= 0x7F && character < 0xA0) || changes_direction(character) ||
               character == 0x2028 || character == 0x2029) {
      out += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(character));
    } else {
      out += before.substr(0, before.size() - rest.size());
    }
  }
  return out;
}

std::string name_text(std::string_view name) { return name.empty() ? "''" : printable(name); }

std::strong_ordering natural_order(std::string_view a, std::string_view b) noexcept {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    if (is_digit(rest_a.front()) && is_digit(rest_b.front())) {
      const auto number_a = take_number(rest_a);
      const auto number_b = take_number(rest_b);
      // Without leading zeros the longer number is the larger one.
      if (const auto order = number_a.size() <=> number_b.size(); order != 0) return order;
      if (const auto order = number_a <=> number_b; order != 0) return order;
      continue;
    }
    const auto byte_a = static_cast<unsigned char>(rest_a.front());
    const auto byte_b = static_cast<unsigned char>(rest_b.front());
    if (byte_a != byte_b) return byte_a <=> byte_b;
    rest_a.remove_prefix(1);
    rest_b.remove_prefix(1);
  }
  if (const auto order = rest_a.size() <=> rest_b.size(); order != 0) return order;
  return a <=> b;
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

}  // namespace ht::cli
