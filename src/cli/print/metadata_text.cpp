#include "cli/print/metadata_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <htensor/format/metadata.hpp>
#include <utility>

#include "cli/print/text.hpp"

namespace ht::cli {
namespace {

constexpr std::size_t max_keys = 100;
constexpr std::size_t max_characters = 60;
constexpr std::uint64_t max_elements = 8;

// A number or a boolean. Only NaN and infinities differ between text and JSON.
std::string scalar_text(const MetaValue& value, bool json) {
  if (const auto truth = value.boolean()) return *truth ? "true" : "false";
  if (const auto natural = value.unsigned_integer()) return std::to_string(*natural);
  const auto real = value.real();
  if (!real) return std::to_string(value.integer().value_or(0));
  std::string out;
  if (value.type() == MetaType::f32) {
    detail::append_number(out, static_cast<float>(*real), json);
  } else {
    detail::append_number(out, *real, json);
  }
  return out;
}

std::string type_text(const MetaValue& value) {
  const auto array = value.array();
  return array ? fmt::format("array:{}", to_string(array->element_type()))
               : std::string(to_string(value.type()));
}

// Returns how many of `columns` the key gets; its value gets the rest. If both do not fit, the value is
// shortened first, but not to less than half of `columns`; then the key is shortened.
std::size_t columns_of_key(std::size_t key_width, std::size_t value_width, std::size_t columns) {
  return std::min(key_width, std::max(columns - std::min(value_width, columns), columns - columns / 2));
}

std::string short_text(std::string_view text) {
  // A character has at most four bytes, so the prefix has at least 60 whole characters. A character that the
  // end of the prefix splits comes after them and is not shown.
  std::string shown = printable(text.substr(0, 4 * max_characters + 4));
  std::string_view rest = shown;
  for (std::size_t characters = 0; !rest.empty() && characters < max_characters; ++characters) {
    static_cast<void>(take_character(rest));
  }
  if (rest.empty()) return shown;
  shown.resize(shown.size() - rest.size());
  return fmt::format("{}… ({} bytes)", shown, text.size());
}

void append_whole(OutputBuffer& out, const Metadata::Item& item) {
  out.append(name_text(item.key), " = ");
  if (const auto text = item.value.text()) {
    out += printable(*text);
  } else if (item.value.array()) {
    append_json(out, item.value);
  } else {
    out += scalar_text(item.value, false);
  }
  out += '\n';
}

void append_shortened(OutputBuffer& out, const Metadata::Item& item, std::size_t max_columns) {
  constexpr std::string_view equals = " = ";
  std::string key = short_text(item.key);
  std::string value = value_text(item.value);
  if (max_columns > 0) {
    const std::size_t shared = max_columns - std::min(equals.size(), max_columns);
    const std::size_t for_key = columns_of_key(display_width(key), display_width(value), shared);
    key = shorten_middle(key, for_key);
    value = shorten_middle(value, shared - for_key);
  }
  const std::string line = fmt::format("{}{}{}", key, equals, value);
  out += max_columns > 0 ? shorten_middle(line, max_columns) : line;
  out += '\n';
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): parsers limit the depth
void append_json(OutputBuffer& out, const MetaValue& value) {
  const auto array = value.array();
  if (const auto text = value.text()) {
    out += JsonText{*text};
  } else if (array) {
    out += '[';
    std::string_view separator;
    for (const auto& element : *array) {
      out += std::exchange(separator, ",");
      append_json(out, element);
    }
    out += ']';
  } else {
    out += scalar_text(value, true);
  }
}

void append_json(OutputBuffer& out, const Metadata& metadata) {
  out += '{';
  std::string_view separator;
  for (const auto& item : metadata) {
    if (is_padding(item)) continue;
    out.append(std::exchange(separator, ","), JsonText{item.key}, ':');
    append_json(out, item.value);
  }
  out += '}';
}

std::string value_text(const MetaValue& value) {
  if (const auto text = value.text()) return short_text(*text);
  const auto array = value.array();
  if (!array) return scalar_text(value, false);
  const bool scalars = fixed_bytes(array->element_type()) != 0;
  if (!scalars || array->size() > max_elements)
    return fmt::format("[{} x {}]", to_string(array->element_type()), array->size());
  std::string out = "[";
  for (const auto& element : *array) {
    if (out.size() > 1) out += ", ";
    out += scalar_text(element, false);
  }
  return out + ']';
}

void append_lines(OutputBuffer& out, const Metadata& metadata, bool whole, std::size_t max_columns) {
  std::size_t keys = 0;
  for (const auto& item : metadata) {
    if (is_padding(item)) continue;
    ++keys;
    if (whole) {
      append_whole(out, item);
    } else if (keys <= max_keys) {
      append_shortened(out, item, max_columns);
    }
  }
  if (!whole && keys > max_keys) append_text(out, "… and {} more keys\n", keys - max_keys);
  if (keys > 0) out += '\n';
}

std::string aligned_text(const Metadata& metadata, std::size_t max_columns) {
  // A very long key does not push all values off the screen.
  constexpr std::size_t max_width = 48;
  constexpr std::size_t gaps = 4;
  struct Line {
    std::string key;
    std::string type;
    std::string value;
  };
  std::vector<Line> lines;
  lines.reserve(metadata.size());
  std::size_t width = 0;
  std::size_t type_width = 0;
  std::size_t value_width = 0;
  for (const auto& item : metadata) {
    if (is_padding(item)) continue;
    const auto& line =
        lines.emplace_back(short_text(item.key), type_text(item.value), value_text(item.value));
    width = std::max(width, std::min(display_width(line.key), max_width));
    type_width = std::max(type_width, line.type.size());
    value_width = std::max(value_width, display_width(line.value));
  }
  const std::size_t shared = max_columns - std::min(max_columns, type_width + gaps);
  if (max_columns > 0) width = columns_of_key(width, value_width, shared);
  std::string out;
  for (auto& [key, type, value] : lines) {
    if (max_columns > 0) {
      key = shorten_middle(key, width);
      value = shorten_middle(value, shared - width);
    }
    const std::string spaces(width - std::min(display_width(key), width), ' ');
    const std::string line = fmt::format("{}{}  {:<{}}  {}", key, spaces, type, type_width, value);
    append_text(out, "{}\n", max_columns > 0 ? shorten_middle(line, max_columns) : line);
  }
  return out;
}

}  // namespace ht::cli
