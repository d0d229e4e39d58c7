#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/utf8.hpp"

namespace ht::inline v1 {
namespace {

constexpr bool between(unsigned char byte, unsigned char low, unsigned char high) {
  return byte >= low && byte <= high;
}

// Returns the number of leading ASCII bytes, rounded down to a multiple of 8: most names are all ASCII.
std::size_t ascii_prefix_bytes(std::string_view text) noexcept {
  constexpr std::uint64_t high_bits = 0x8080'8080'8080'8080;
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & high_bits) != 0) break;
  }
  return at;
}

}  // namespace

std::size_t character_bytes(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto at = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
  };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  std::size_t bytes = 0;
  // The range of the second byte excludes overlong forms, surrogates and code points above U+10FFFF.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (between(first, 0xC2, 0xDF)) {
    bytes = 2;
  } else if (between(first, 0xE0, 0xEF)) {
    bytes = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (between(first, 0xF0, 0xF4)) {
    bytes = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (bytes == 0 || !between(at(1), low, high)) return 0;
  for (std::size_t i = 2; i < bytes; ++i) {
    if (!between(at(i), 0x80, 0xBF)) return 0;
  }
  return bytes;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    text.remove_prefix(ascii_prefix_bytes(text));
    if (text.empty()) break;
    const std::size_t bytes = character_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    clean.append(bytes == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, bytes));
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return clean;
}

std::string name_list(std::span<const std::string> names) {
  constexpr std::size_t max_names = 10;
  std::string list;
  for (const auto& name : names.first(std::min(names.size(), max_names))) {
    if (!list.empty()) list += ", ";
    list += to_utf8(name);
  }
  if (names.size() > max_names) list += " … and " + std::to_string(names.size() - max_names) + " more";
  return list;
}

void append_json_string(std::string& out, std::string_view text) {
  if (!is_utf8(text)) return append_json_string(out, to_utf8(text));  // NOLINT(misc-no-recursion): once
  constexpr std::string_view digits = "0123456789abcdef";
  // Characters that have a short escape, and the letters of these escapes.
  constexpr std::string_view special = "\"\\\b\t\n\f\r";
  constexpr std::string_view letters = "\"\\btnfr";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && c != '"' && c != '\\') {
      out += c;
    } else if (const auto found = special.find(c); found != special.npos) {
      out += '\\';
      out += letters[found];
    } else {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 0xF];
    }
  }
  out += '"';
}

std::string_view path_problem(std::string_view path) noexcept {
  if (path.empty()) return "is empty";
  if (!is_utf8(path)) return "is not valid UTF-8";
  if (path.find('\0') != path.npos) return "contains a NUL byte";
  // On Windows, a backslash separates folders.
  if (path.find('\\') != path.npos) return "contains a backslash";
  if (path.front() == '/') return "is absolute";
  std::string_view component;
  for (std::string_view rest = path; !rest.empty();) {
    component = rest.substr(0, rest.find('/'));
    if (component == "..") return "contains '..'";
    rest.remove_prefix(component.size() == rest.size() ? component.size() : component.size() + 1);
  }
  if (path.back() == '/' || component == ".") return "names a folder";
  return {};
}

}  // namespace ht::inline v1
