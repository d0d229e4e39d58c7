#include <htensor/base/json_text.hpp>

#include <htensor/base/utf8.hpp>

namespace ht::inline v1 {
namespace {

// The letter of a short escape, 0 where there is none.
char short_escape(char c) {
  switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\t': return 't';
    case '\n': return 'n';
    case '\f': return 'f';
    case '\r': return 'r';
    default: return 0;
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  if (!is_utf8(text)) return append_json_string(out, to_utf8(text));  // NOLINT(misc-no-recursion): once
  constexpr std::string_view digits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const char letter = short_escape(c); letter != 0) {
      out += '\\';
      out += letter;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 0xF];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace ht::inline v1
