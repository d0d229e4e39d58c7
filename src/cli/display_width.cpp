#include "cli/display_width.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <span>
#include <vector>

namespace ht::cli {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Characters that Unicode 14 calls wide or full-width (EastAsianWidth.txt), unassigned ones between two of
// them included.
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

// Nonspacing and enclosing marks (categories Mn and Me) of the scripts and symbols that names have most
// often, Hangul medial and final letters, and characters without width.
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
  // One column is for the ellipsis; the rest is shared by both ends.
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

SharedColumns share_columns(std::size_t first, std::size_t second, std::size_t columns) noexcept {
  const std::size_t beside_second = columns - std::min(second, columns);
  const std::size_t for_first = std::min(first, std::max(beside_second, columns - columns / 2));
  return {for_first, columns - for_first};
}

std::size_t terminal_columns(int descriptor) {
  if (isatty(descriptor) == 0) return 0;
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  std::size_t columns = 0;
  if (const char* const said = std::getenv("COLUMNS")) {
    const std::string_view digits(said);
    std::from_chars(digits.data(), digits.data() + digits.size(), columns);
  }
  constexpr std::size_t usual = 80;
  return columns > 0 ? columns : usual;
}

}  // namespace ht::cli
