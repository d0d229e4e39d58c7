#include "cli/print/text.hpp"
#include "base/utf8.hpp"

#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <htensor/base/bytes.hpp>
#include <iterator>
#include <vector>

namespace ht::cli {
namespace {

constexpr std::string_view units = "KMGTPE";

// Characters that change the direction of text and can make a name look like another.
bool changes_direction(char32_t character) {
  return (character >= 0x202A && character <= 0x202E) || (character >= 0x2066 && character <= 0x2069) ||
         character == 0x200E || character == 0x200F || character == 0x061C;
}

constexpr std::uint64_t each_byte(std::uint8_t byte) { return 0x0101'0101'0101'0101U * byte; }
constexpr std::uint64_t high_bits = each_byte(0x80);

// Whether a byte of the word is outside 0x20 to 0x7E. Borrows and carries start only at bytes outside this
// range, so they cannot cause a false positive.
constexpr bool has_unprintable(std::uint64_t word) {
  return (((word - each_byte(0x20)) | (word + each_byte(0x01)) | word) & high_bits) != 0;
}

// Whether a byte of the word equals `byte`. No byte of the word may have its high bit set.
constexpr bool has_byte(std::uint64_t word, char byte) {
  const std::uint64_t zero_where_equal = word ^ each_byte(static_cast<std::uint8_t>(byte));
  return ((zero_where_equal - each_byte(0x01)) & ~zero_where_equal & high_bits) != 0;
}

// Whether `test` is false for all words of the text. The last word is padded with spaces.
template <class Test>
bool has_no(std::string_view text, const Test& test) {
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

// Removes leading digits from the text and returns them without leading zeros.
std::string_view take_number(std::string_view& text) noexcept {
  const auto end = std::ranges::find_if_not(text, is_digit);
  auto digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Characters that are wide or full-width in Unicode 14 (EastAsianWidth.txt), including unassigned ones
// between two of them.
constexpr std::array wide = std::to_array<Range>(
    {{0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},   {0x23F0, 0x23F0},
     {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267F, 0x267F},
     {0x2693, 0x2693},   {0x26A1, 0x26A1},   {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},
     {0x26CE, 0x26CE},   {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},
     {0x26FA, 0x26FA},   {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},   {0x2728, 0x2728},
     {0x274C, 0x274C},   {0x274E, 0x274E},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
     {0x27B0, 0x27B0},   {0x27BF, 0x27BF},   {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},
     {0x2E80, 0x3029},   {0x302E, 0x303E},   {0x3041, 0x3096},   {0x309B, 0x3247},   {0x3250, 0x4DBF},
     {0x4E00, 0xA4C6},   {0xA960, 0xA97C},   {0xAC00, 0xD7A3},   {0xF900, 0xFAD9},   {0xFE10, 0xFE19},
     {0xFE30, 0xFE6B},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x16FE3}, {0x16FF0, 0x1B2FB},
     {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF}, {0x1F18E, 0x1F18E}, {0x1F191, 0x1F19A}, {0x1F200, 0x1F320},
     {0x1F32D, 0x1F335}, {0x1F337, 0x1F37C}, {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA}, {0x1F3CF, 0x1F3D3},
     {0x1F3E0, 0x1F3F0}, {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E}, {0x1F440, 0x1F440}, {0x1F442, 0x1F4FC},
     {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F54E}, {0x1F550, 0x1F567}, {0x1F57A, 0x1F57A}, {0x1F595, 0x1F596},
     {0x1F5A4, 0x1F5A4}, {0x1F5FB, 0x1F64F}, {0x1F680, 0x1F6C5}, {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2},
     {0x1F6D5, 0x1F6DF}, {0x1F6EB, 0x1F6EC}, {0x1F6F4, 0x1F6FC}, {0x1F7E0, 0x1F7F0}, {0x1F90C, 0x1F93A},
     {0x1F93C, 0x1F945}, {0x1F947, 0x1F9FF}, {0x1FA70, 0x1FAF6}, {0x20000, 0x3FFFD}});

// Nonspacing and enclosing marks (categories Mn and Me) of the scripts and symbols most common in names,
// Hangul medial and final letters, and zero-width characters.
constexpr std::array without_width = std::to_array<Range>(
    {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD},  {0x05BF, 0x05BF}, {0x05C1, 0x05C2},
     {0x05C4, 0x05C5}, {0x05C7, 0x05C7}, {0x0610, 0x061A},  {0x064B, 0x065F}, {0x0670, 0x0670},
     {0x06D6, 0x06DC}, {0x06DF, 0x06E4}, {0x06E7, 0x06E8},  {0x06EA, 0x06ED}, {0x0900, 0x0902},
     {0x093A, 0x093A}, {0x093C, 0x093C}, {0x0941, 0x0948},  {0x094D, 0x094D}, {0x0951, 0x0957},
     {0x0962, 0x0963}, {0x0981, 0x0981}, {0x09BC, 0x09BC},  {0x09C1, 0x09C4}, {0x09CD, 0x09CD},
     {0x09E2, 0x09E3}, {0x0BC0, 0x0BC0}, {0x0BCD, 0x0BCD},  {0x0E31, 0x0E31}, {0x0E34, 0x0E3A},
     {0x0E47, 0x0E4E}, {0x1160, 0x11FF}, {0x1AB0, 0x1ACE},  {0x1DC0, 0x1DFF}, {0x200B, 0x200D},
     {0x2060, 0x2064}, {0x20D0, 0x20F0}, {0x302A, 0x302D},  {0x3099, 0x309A}, {0xFE00, 0xFE0F},
     {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}});

bool is_in(std::span<const Range> ranges, std::uint32_t character) {
  const auto found = std::ranges::lower_bound(ranges, character, {}, &Range::last);
  return found != ranges.end() && found->first <= character;
}

std::size_t width_of(char32_t character) {
  if (character < without_width.front().first) return 1;
  if (is_in(without_width, character)) return 0;
  return is_in(wide, character) ? 2 : 1;
}

}  // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  // The integer part is parsed exactly; a double would round numbers above 2^53.
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
    if (!unit.empty() && unit != "B" && (power == 0 || unit != "iB")) return std::nullopt;
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
    // May be 10 after rounding, which is carried into `whole`.
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
  // 1233 / 4096 is slightly less than log10(2), so this is the number of digits or one less.
  const auto about = static_cast<std::size_t>(std::bit_width(number | 1) * 1233) >> 12;
  return about + (about < powers.size() && (number | 1) >= powers[about] ? 1 : 0);
}

std::string count_text(std::uint64_t count) {
  if (count < 1000) return std::to_string(count);
  constexpr std::string_view thousands = "KMBT";
  std::size_t unit = 0;
  std::uint64_t one = 1000;
  // Use the next unit if three digits would be rounded up to 1000.
  while (unit + 1 < thousands.size() && count >= one * 1000 - one / 2) {
    ++unit;
    one *= 1000;
  }
  const auto value = static_cast<double>(count) / static_cast<double>(one);
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, thousands[unit]);
}

bool is_plain(std::string_view text) noexcept {
  return has_no(text, [](std::uint64_t word) { return has_unprintable(word); });
}

bool is_plain_json(std::string_view text) noexcept {
  return has_no(text, [](std::uint64_t word) {
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

char32_t take_character(std::string_view& text) noexcept {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t character = bytes == 1 ? first : first & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    character = (character << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  text.remove_prefix(bytes);
  return character;
}

std::size_t display_width(std::string_view text) noexcept {
  std::size_t columns = 0;
  while (!text.empty()) columns += width_of(take_character(text));
  return columns;
}

std::string shorten_middle(std::string_view text, std::size_t columns) {
  // A character with its marks.
  struct Cluster {
    std::size_t begin;
    std::size_t width;
  };
  std::vector<Cluster> clusters;
  std::size_t total = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t begin = text.size() - rest.size();
    const std::size_t width = width_of(take_character(rest));
    if (width > 0 || clusters.empty()) clusters.push_back({begin, width});
    total += width;
  }
  if (total <= columns) return std::string(text);
  if (columns == 0) return "";
  // One column is for the ellipsis; both ends share the rest.
  const std::size_t tail_columns = (columns - 1) / 2;
  std::size_t head_columns = columns - 1 - tail_columns;
  std::size_t head = 0;
  while (head < clusters.size() && clusters[head].width <= head_columns)
    head_columns -= clusters[head++].width;
  std::size_t tail = clusters.size();
  for (std::size_t left = tail_columns; tail > head && clusters[tail - 1].width <= left;) {
    left -= clusters[--tail].width;
  }
  const auto begin_of = [&](std::size_t i) { return i < clusters.size() ? clusters[i].begin : text.size(); };
  std::string out(text.substr(0, begin_of(head)));
  out += "…";
  return out += text.substr(begin_of(tail));
}

std::size_t terminal_columns(int descriptor) {
  if (isatty(descriptor) == 0) return 0;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  std::size_t columns = 0;
  if (const char* const columns_text = std::getenv("COLUMNS"))
    std::from_chars(columns_text, columns_text + std::strlen(columns_text), columns);
  return columns > 0 ? columns : default_columns;
}

std::strong_ordering natural_order(std::string_view a, std::string_view b) noexcept {
  std::string_view rest_a = a;
  std::string_view rest_b = b;
  while (!rest_a.empty() && !rest_b.empty()) {
    if (is_digit(rest_a.front()) && is_digit(rest_b.front())) {
      const auto number_a = take_number(rest_a);
      const auto number_b = take_number(rest_b);
      // Without leading zeros, the longer number is larger.
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

std::string shape_text(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string json_path(const std::filesystem::path& path) { return json_string(path.native()); }

std::string json_or_null(std::string_view text) { return text.empty() ? "null" : json_string(text); }

std::string json_paths(std::span<const std::filesystem::path> paths) {
  return paths.size() == 1 ? json_path(paths.front()) : json_list(paths, json_path);
}

std::string json_members(const Error& error) {
  return fmt::format(R"("code":{},"rule":{},"path":{},"tensor":{},"offset":{},"message":{},"hint":{})",
                     json_string(to_string(error.code())), json_string(error.rule()),
                     json_or_null(error.path()), json_or_null(error.tensor()), json_or_null(error.offset()),
                     json_string(error.message()), json_or_null(error.hint()));
}

std::string json_errors(std::span<const Error> errors) {
  return json_list(errors, [](const Error& error) { return "{" + json_members(error) + "}"; });
}

void vappend_text(std::string& out, fmt::string_view format, fmt::format_args args) {
  fmt::vformat_to(std::back_inserter(out), format, args);
}

}  // namespace ht::cli
