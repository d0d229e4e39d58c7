#include "format/value_text.hpp"

#include <charconv>
#include <htensor/base/utf8.hpp>

#include "base/format_text.hpp"
#include "format/json.hpp"

namespace ht::inline v1 {
namespace {

using Value = std::vector<std::byte>;

template <WireNumber T>
void append(Value& out, T number) {
  out.resize(out.size() + sizeof(T));
  store_le(MutableBytes(out).last(sizeof(T)), number);
}

void append_string(Value& out, std::string_view text) {
  append(out, static_cast<std::uint64_t>(text.size()));
  const Bytes bytes = bytes_of(text);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Of the very type, so that nothing is rounded twice.
template <WireNumber T>
bool append_number(Value& out, std::string_view text) {
  T number{};
  const std::span<const char> all(text);
  const char* const end = all.data() + all.size();
  const auto [after, error] = std::from_chars(all.data(), end, number);
  if (error != std::errc{} || after != end) return false;
  append(out, number);
  return true;
}

bool append_truth(Value& out, std::string_view text) {
  if (text != "true" && text != "false") return false;
  append(out, static_cast<std::uint8_t>(text == "true"));
  return true;
}

// False where the text is none of the type.
bool append_scalar(Value& out, MetaType type, std::string_view text) {
  switch (type) {
    case MetaType::u8: return append_number<std::uint8_t>(out, text);
    case MetaType::i8: return append_number<std::int8_t>(out, text);
    case MetaType::u16: return append_number<std::uint16_t>(out, text);
    case MetaType::i16: return append_number<std::int16_t>(out, text);
    case MetaType::u32: return append_number<std::uint32_t>(out, text);
    case MetaType::i32: return append_number<std::int32_t>(out, text);
    case MetaType::f32: return append_number<float>(out, text);
    case MetaType::boolean: return append_truth(out, text);
    case MetaType::u64: return append_number<std::uint64_t>(out, text);
    case MetaType::i64: return append_number<std::int64_t>(out, text);
    case MetaType::f64: return append_number<double>(out, text);
    case MetaType::string: append_string(out, text); return true;
    case MetaType::array: return false;
  }
  return false;
}

bool is_real(MetaType type) { return type == MetaType::f32 || type == MetaType::f64; }

// NaN and infinities are strings in JSON, here as in what the program prints.
bool append_element(Value& out, MetaType type, json::Document& document, json::Value& element) {
  using simdjson::ondemand::json_type;
  json_type found{};
  if (element.type().get(found) != simdjson::SUCCESS) return false;
  if (found == json_type::string) {
    const auto text = document.text(element);
    return text && (type == MetaType::string || is_real(type)) && append_scalar(out, type, *text);
  }
  if (found != (type == MetaType::boolean ? json_type::boolean : json_type::number)) return false;
  if (type == MetaType::string) return false;
  std::string_view token = element.raw_json_token();
  while (!token.empty() && std::string_view(" \t\r\n").find(token.back()) != std::string_view::npos) {
    token.remove_suffix(1);
  }
  return !document.check(element) && append_scalar(out, type, token);
}

bool append_list(Value& out, MetaType type, std::string_view text) {
  struct No {};
  append(out, static_cast<std::uint32_t>(type));
  append(out, std::uint64_t{0});
  // Documents are objects; whatever the text is, a list is the one member of this one or it is none.
  const std::string object = R"({"":)" + std::string(text) + "}";
  json::Document document(bytes_of(object));
  const auto no = [](const json::Problem&) { return No{}; };
  std::uint64_t lists = 0;
  std::uint64_t count = 0;
  const auto failed = document.each<No>(
      [&](std::string_view, json::Value& list) {
        ++lists;
        return document.each_element<No>(
            list,
            [&](json::Value& element) -> std::optional<No> {
              ++count;
              if (append_element(out, type, document, element)) return std::nullopt;
              return No{};
            },
            no);
      },
      no);
  store_le(MutableBytes(out).subspan(sizeof(std::uint32_t)), count);
  return !failed && lists == 1;
}

}  // namespace

Result<std::vector<std::byte>> value_of_text(std::string_view text, const ValueType& type) {
  Value value;
  const bool is_list = type.type == MetaType::array;
  if (is_list && type.element == MetaType::array) {
    return fail(
        Error(ErrorCode::dtype_mismatch, "value_is_of_its_type", "an array of arrays cannot be set from text")
            .with_hint("choose another type with --type, or remove the key"));
  }
  if (is_list ? append_list(value, type.element, text) : append_scalar(value, type.type, text)) return value;
  return fail(Error(ErrorCode::dtype_mismatch, "value_is_of_its_type",
                    is_list ? format_text("'{}' is not a list of {}", to_utf8(text), to_string(type.element))
                            : format_text("'{}' is not of type {}", to_utf8(text), to_string(type.type)))
                  .with_hint(is_list ? "write a JSON list such as [1, 2], or choose another type with --type"
                                     : "pass a number in the range of the type, or true or false for a bool; "
                                       "--type chooses another type"));
}

}  // namespace ht::inline v1
