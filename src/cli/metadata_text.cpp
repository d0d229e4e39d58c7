#include "cli/metadata_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <htensor/base/json_text.hpp>
#include <htensor/format/metadata_edit.hpp>

#include "cli/display_width.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

constexpr std::size_t max_keys = 100;
constexpr std::size_t max_characters = 60;
constexpr std::uint64_t max_elements = 8;

template <class Out>
void append_integer(Out& out, const MetaValue& value) {
  if (const auto natural = value.natural()) {
    append_text(out, "{}", *natural);
  } else {
    append_text(out, "{}", value.integer().value_or(0));
  }
}

// A number or a boolean. Only NaN and infinities differ between people and JSON.
template <class Out>
void append_scalar(Out& out, const MetaValue& value, bool json) {
  if (const auto truth = value.boolean()) {
    out += *truth ? "true" : "false";
  } else if (const auto real = value.real()) {
    if (value.type() == MetaType::f32) {
      detail::append_number(out, static_cast<float>(*real), json);
    } else {
      detail::append_number(out, *real, json);
    }
  } else {
    append_integer(out, value);
  }
}

std::string type_text(const MetaValue& value) {
  const auto array = value.array();
  return array ? fmt::format("array:{}", to_string(array->element_type()))
               : std::string(to_string(value.type()));
}

std::string short_text(std::string_view text) {
  // A character has at most four bytes, so one that is cut here is not among the shown ones.
  std::string shown = printable(text.substr(0, 4 * max_characters + 4));
  std::string_view rest = shown;
  for (std::size_t characters = 0; !rest.empty() && characters < max_characters; ++characters) {
    static_cast<void>(take_character(rest));
  }
  if (rest.empty()) return shown;
  shown.resize(shown.size() - rest.size());
  return fmt::format("{}… ({} bytes)", shown, text.size());
}

template <class Out>
void append_json_value(Out& out, const MetaValue& value) {  // NOLINT(misc-no-recursion): parsers bound it
  if (const auto text = value.text()) return append_json_string(out, *text);
  const auto array = value.array();
  if (!array) return append_scalar(out, value, true);
  out += '[';
  bool is_first = true;
  for (const auto& element : *array) {
    if (!is_first) out += ',';
    is_first = false;
    append_json_value(out, element);
  }
  out += ']';
}

template <class Out>
void append_json_object(Out& out, const Metadata& metadata) {
  out += '{';
  bool is_first = true;
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto item = metadata[i];
    if (is_padding(item)) continue;
    if (!is_first) out += ',';
    is_first = false;
    append_json_string(out, item.key);
    out += ':';
    append_json_value(out, item.value);
  }
  out += '}';
}

void append_whole(OutputBuffer& out, const Metadata::Item& item) {
  out += name_text(item.key);
  out += " = ";
  if (const auto text = item.value.text()) {
    out += printable(*text);
  } else if (item.value.array()) {
    append_json_value(out, item.value);
  } else {
    append_scalar(out, item.value, false);
  }
  out += '\n';
}

}  // namespace

void append_json(std::string& out, const MetaValue& value) { append_json_value(out, value); }
void append_json(OutputBuffer& out, const MetaValue& value) { append_json_value(out, value); }
void append_json(std::string& out, const Metadata& metadata) { append_json_object(out, metadata); }
void append_json(OutputBuffer& out, const Metadata& metadata) { append_json_object(out, metadata); }

std::string value_text(const MetaValue& value) {
  if (const auto text = value.text()) return short_text(*text);
  std::string out;
  const auto array = value.array();
  if (!array) {
    append_scalar(out, value, false);
    return out;
  }
  const bool scalars = fixed_bytes(array->element_type()) != 0;
  if (!scalars || array->size() > max_elements)
    return fmt::format("[{} x {}]", to_string(array->element_type()), array->size());
  out += '[';
  for (const auto& element : *array) {
    if (out.size() > 1) out += ", ";
    append_scalar(out, element, false);
  }
  return out + ']';
}

void append_lines(OutputBuffer& out, const Metadata& metadata, bool whole) {
  std::size_t keys = 0;
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto item = metadata[i];
    if (is_padding(item)) continue;
    ++keys;
    if (whole) {
      append_whole(out, item);
    } else if (keys <= max_keys) {
      append_text(out, "{} = {}\n", short_text(item.key), value_text(item.value));
    }
  }
  if (!whole && keys > max_keys) append_text(out, "… and {} more keys\n", keys - max_keys);
  if (keys > 0) out += '\n';
}

std::string aligned_text(const Metadata& metadata) {
  // One very long key does not push all values off the screen.
  constexpr std::size_t max_width = 48;
  std::vector<std::string> keys;
  std::vector<std::string> types;
  keys.reserve(metadata.size());
  types.reserve(metadata.size());
  std::size_t width = 0;
  std::size_t type_width = 0;
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto item = metadata[i];
    const auto& key = keys.emplace_back(is_padding(item) ? std::string() : short_text(item.key));
    width = std::max(width, std::min(display_width(key), max_width));
    type_width = std::max(type_width, types.emplace_back(type_text(item.value)).size());
  }
  std::string out;
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    if (is_padding(metadata[i])) continue;
    const std::string spaces(width - std::min(display_width(keys[i]), width), ' ');
    append_text(out, "{}{}  {:<{}}  {}\n", keys[i], spaces, types[i], type_width,
                value_text(metadata[i].value));
  }
  return out;
}

}  // namespace ht::cli
