#include <htensor/format/metadata.hpp>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/format_text.hpp"
#include "base/utf8.hpp"
#include "format/gguf/gguf_wire.hpp"
#include "format/json/json.hpp"
#include "format/shards/numbered_name.hpp"

namespace ht::inline v1 {
namespace {

// Metadata values have the encoding of GGUF.
using format_gguf::Writer;

std::optional<MetaType> type_named(std::string_view name) noexcept {
  for (std::uint32_t i = 0; i < meta_type_count; ++i) {
    const auto type = static_cast<MetaType>(i);
    if (type != MetaType::array && to_string(type) == name) return type;
  }
  return std::nullopt;
}

MetadataEdit::Type type_of(const MetaValue& value) noexcept {
  const auto array = value.array();
  return {value.type(), array ? array->element_type() : MetaType::string};
}

// Parses the text directly as T: a float that is parsed as a double first is rounded twice.
template <WireNumber T>
bool append_number(Writer& out, std::string_view text) {
  T number{};
  const std::span<const char> all(text);
  const char* const end = all.data() + all.size();
  const auto [after, error] = std::from_chars(all.data(), end, number);
  if (error != std::errc{} || after != end) return false;
  out.number(number);
  return true;
}

bool append_boolean(Writer& out, std::string_view text) {
  if (text != "true" && text != "false") return false;
  out.number(static_cast<std::uint8_t>(text == "true"));
  return true;
}

// False if the text is not a value of the type.
bool append_scalar(Writer& out, MetaType type, std::string_view text) {
  switch (type) {
    case MetaType::u8: return append_number<std::uint8_t>(out, text);
    case MetaType::i8: return append_number<std::int8_t>(out, text);
    case MetaType::u16: return append_number<std::uint16_t>(out, text);
    case MetaType::i16: return append_number<std::int16_t>(out, text);
    case MetaType::u32: return append_number<std::uint32_t>(out, text);
    case MetaType::i32: return append_number<std::int32_t>(out, text);
    case MetaType::f32: return append_number<float>(out, text);
    case MetaType::boolean: return append_boolean(out, text);
    case MetaType::u64: return append_number<std::uint64_t>(out, text);
    case MetaType::i64: return append_number<std::int64_t>(out, text);
    case MetaType::f64: return append_number<double>(out, text);
    case MetaType::string: out.text(text); return true;
    case MetaType::array: return false;
  }
  return false;
}

bool is_real(MetaType type) { return type == MetaType::f32 || type == MetaType::f64; }

// NaN and infinities are strings in JSON, as in the program's output.
bool is_non_finite(std::string_view text) {
  return text == "NaN" || text == "Infinity" || text == "-Infinity";
}

bool append_element(Writer& out, MetaType type, json::Document& document, json::Value& element) {
  if (document.is(element, json::Type::string)) {
    const auto text = document.text(element);
    const bool is_value = text && (type == MetaType::string || (is_real(type) && is_non_finite(*text)));
    return is_value && append_scalar(out, type, *text);
  }
  const auto expected = type == MetaType::boolean ? json::Type::boolean : json::Type::number;
  if (type == MetaType::string || !document.is(element, expected)) return false;
  std::string_view token = element.raw_json_token();
  while (!token.empty() && std::string_view(" \t\r\n").find(token.back()) != std::string_view::npos) {
    token.remove_suffix(1);
  }
  return !document.check(element) && append_scalar(out, type, token);
}

bool append_list(Writer& out, MetaType type, std::string_view text) {
  struct Malformed {};
  out.number(static_cast<std::uint32_t>(type));
  out.number(std::uint64_t{0});
  // A Document must be an object, so the text becomes the value of one member. `each_element` refuses a value
  // that is not a list. A second member means that the text contains more than one value.
  const std::string object = R"({"":)" + std::string(text) + "}";
  json::Document document(bytes_of(object));
  const auto malformed = [](const json::Problem&) { return Malformed{}; };
  std::uint64_t lists = 0;
  std::uint64_t count = 0;
  const auto failed = document.each<Malformed>(
      [&](std::string_view, json::Value& list) {
        ++lists;
        return document.each_element<Malformed>(
            list,
            [&](json::Value& element) -> std::optional<Malformed> {
              ++count;
              if (append_element(out, type, document, element)) return std::nullopt;
              return Malformed{};
            },
            malformed);
      },
      malformed);
  store_le(MutableBytes(out.bytes()).subspan(sizeof(std::uint32_t)), count);
  return !failed && lists == 1;
}

// Converts the text to a value in the form of `MetaValue::bytes`. `dtype_mismatch` if the text is not a value
// of the type.
Result<std::vector<std::byte>> value_of_text(std::string_view text, const MetadataEdit::Type& type) {
  Writer value(ByteOrder::little);
  const bool is_list = type.type == MetaType::array;
  if (is_list && type.element == MetaType::array) {
    return fail(Error(ErrorCode::dtype_mismatch, "value_matches_its_type",
                      "an array of arrays cannot be set from text")
                    .with_hint("choose another type with --type, or remove the key"));
  }
  if (is_list ? append_list(value, type.element, text) : append_scalar(value, type.type, text)) {
    return std::move(value.bytes());
  }
  return fail(Error(ErrorCode::dtype_mismatch, "value_matches_its_type",
                    is_list ? format_text("'{}' is not a list of {}", to_utf8(text), to_string(type.element))
                            : format_text("'{}' is not of type {}", to_utf8(text), to_string(type.type)))
                  .with_hint(is_list ? "write a JSON list such as [1, 2], or choose another type with --type"
                                     : "pass a number in the range of the type, or true or false for a bool; "
                                       "--type chooses another type"));
}

// An item, and its bytes if an edit created them.
struct Slot {
  Metadata::Item item;
  std::vector<std::byte> bytes;
};

Result<void> apply(const MetadataEdit& edit, std::vector<Slot>& items) {
  const auto found = std::ranges::find(items, edit.key, [](const Slot& slot) { return slot.item.key; });
  const bool exists = found != items.end();
  if (edit.stored_value) {
    if (exists) {
      *found = {{found->item.key, *edit.stored_value}, {}};
    } else {
      items.push_back({{edit.key, *edit.stored_value}, {}});
    }
    return {};
  }
  if (!edit.value) {
    if (!exists) {
      return fail(Error(ErrorCode::not_found, "metadata_key_exists",
                        format_text("the metadata has no key '{}'", to_utf8(edit.key)))
                      .with_hint("list the keys: htensor meta FILE"));
    }
    items.erase(found);
    return {};
  }
  const MetadataEdit::Type type = edit.type ? *edit.type
                                  : exists  ? type_of(found->item.value)
                                            : MetadataEdit::Type{};
  auto bytes = HT_TRY(value_of_text(*edit.value, type));
  // Moving the vector does not move its bytes, so the view stays valid.
  const MetaValue value(type.type, bytes);
  if (exists) {
    found->item.value = value;
    found->bytes = std::move(bytes);
  } else {
    items.push_back({{edit.key, value}, std::move(bytes)});
  }
  return {};
}

}  // namespace

std::optional<MetadataEdit::Type> value_type_named(std::string_view name) noexcept {
  constexpr std::string_view array = "array:";
  const bool is_array = name.starts_with(array);
  const auto type = type_named(is_array ? name.substr(array.size()) : name);
  if (!type) return std::nullopt;
  return is_array ? MetadataEdit::Type{MetaType::array, *type} : MetadataEdit::Type{*type};
}

bool is_padding(const Metadata::Item& item) noexcept {
  if (item.key != format_gguf::pad_key) return false;
  const auto text = item.value.text();
  return text && text->find_first_not_of(' ') == std::string_view::npos;
}

bool describes_layout(const Metadata::Item& item) noexcept {
  return item.key == format_gguf::alignment_key || item.key.starts_with(split_prefix) || is_padding(item);
}

Result<Metadata> apply_edits(const Metadata& metadata, std::span<const MetadataEdit> edits) {
  return without_bad_alloc([&]() -> Result<Metadata> {
    std::vector<Slot> items;
    items.reserve(metadata.size());
    for (const auto& item : metadata) items.push_back({item, {}});
    for (const auto& edit : edits) HT_TRY(apply(edit, items));
    std::size_t key_bytes = 0;
    std::size_t value_bytes = 0;
    for (const auto& [item, bytes] : items) {
      key_bytes += item.key.size();
      value_bytes += item.value.bytes().size();
    }
    Metadata result;
    HT_TRY(result.reserve(items.size(), key_bytes, value_bytes));
    for (const auto& [item, bytes] : items) HT_TRY(result.add(item.key, item.value));
    HT_TRY(result.index());
    return result;
  });
}

}  // namespace ht::inline v1
