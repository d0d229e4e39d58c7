#include "cli/metadata_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <htensor/base/json_text.hpp>
#include <htensor/format/metadata_edit.hpp>

#include "cli/text.hpp"

namespace ht::cli {
namespace {

constexpr std::size_t most_keys = 100;
constexpr std::size_t most_characters = 60;
constexpr std::uint64_t most_elements = 8;

void append_whole(std::string& out, const MetaValue& value) {
  if (const auto natural = value.natural()) {
    append_text(out, "{}", *natural);
  } else {
    append_text(out, "{}", value.integer().value_or(0));
  }
}

// A number or a truth, which look alike for people and machines but for NaN and infinities.
void append_scalar(std::string& out, const MetaValue& value, bool json) {
  if (const auto truth = value.boolean()) {
    out += *truth ? "true" : "false";
  } else if (const auto real = value.real()) {
    if (value.type() == MetaType::f32) {
      detail::append_number(out, static_cast<float>(*real), json);
    } else {
      detail::append_number(out, *real, json);
    }
  } else {
    append_whole(out, value);
  }
}

std::string type_text(const MetaValue& value) {
  const auto array = value.array();
  return array ? fmt::format("array:{}", to_string(array->element_type()))
               : std::string(to_string(value.type()));
}

std::string short_text(std::string_view text) {
  // No character has more than four bytes, so the cut through one is behind what is shown.
  std::string shown = printable(text.substr(0, 4 * most_characters + 4));
  std::size_t end = 0;
  std::size_t characters = 0;
  while (end < shown.size() && characters < most_characters) {
    ++characters;
    for (++end; end < shown.size() && (static_cast<unsigned char>(shown[end]) & 0xC0U) == 0x80U;) ++end;
  }
  if (end == shown.size()) return shown;
  shown.resize(end);
  return fmt::format("{}… ({} bytes)", shown, text.size());
}

}  // namespace

void append_json(std::string& out, const MetaValue& value) {  // NOLINT(misc-no-recursion): parsers bound it
  if (const auto text = value.text()) return append_json_string(out, *text);
  const auto array = value.array();
  if (!array) return append_scalar(out, value, true);
  out += '[';
  bool first = true;
  for (const auto& element : *array) {
    if (!first) out += ',';
    first = false;
    append_json(out, element);
  }
  out += ']';
}

void append_json(std::string& out, const Metadata& metadata) {
  out += '{';
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto [key, value] = metadata[i];
    if (i > 0) out += ',';
    append_json_string(out, key);
    out += ':';
    append_json(out, value);
  }
  out += '}';
}

std::string value_text(const MetaValue& value) {
  if (const auto text = value.text()) return short_text(*text);
  std::string out;
  const auto array = value.array();
  if (!array) {
    append_scalar(out, value, false);
    return out;
  }
  const bool scalars = fixed_bytes(array->element_type()) != 0;
  if (!scalars || array->size() > most_elements)
    return fmt::format("[{} x {}]", to_string(array->element_type()), array->size());
  out += '[';
  for (const auto& element : *array) {
    if (out.size() > 1) out += ", ";
    append_scalar(out, element, false);
  }
  return out + ']';
}

std::string metadata_text(const Metadata& metadata) {
  std::string out;
  const std::size_t shown = std::min(metadata.size(), most_keys);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto [key, value] = metadata[i];
    append_text(out, "{} = {}\n", short_text(key), value_text(value));
  }
  if (shown < metadata.size()) append_text(out, "… and {} more keys\n", metadata.size() - shown);
  return out;
}

std::string aligned_text(const Metadata& metadata) {
  // One very long key does not push all values off the screen.
  constexpr std::size_t most_width = 48;
  std::vector<std::string> keys;
  std::vector<std::string> types;
  keys.reserve(metadata.size());
  types.reserve(metadata.size());
  std::size_t width = 0;
  std::size_t type_width = 0;
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto item = metadata[i];
    const auto& key = keys.emplace_back(is_padding(item) ? std::string() : short_text(item.key));
    width = std::max(width, std::min(character_count(key), most_width));
    type_width = std::max(type_width, types.emplace_back(type_text(item.value)).size());
  }
  std::string out;
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    if (is_padding(metadata[i])) continue;
    const std::string spaces(width - std::min(character_count(keys[i]), width), ' ');
    append_text(out, "{}{}  {:<{}}  {}\n", keys[i], spaces, types[i], type_width,
                value_text(metadata[i].value));
  }
  return out;
}

}  // namespace ht::cli
