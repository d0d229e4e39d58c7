#include "format/json/json.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "format/format_errors.hpp"

namespace ht::inline v1::json {
namespace {

// simdjson allocates at its first use, in functions that are noexcept. It is first used here, before main, so
// that later exhaustion of memory is an error instead of std::terminate.
[[maybe_unused]] const std::string simdjson_implementation = simdjson::get_active_implementation()->name();

std::string_view describe_error(simdjson::error_code error) {
  switch (error) {
    case simdjson::UTF8_ERROR: return "not valid UTF-8";
    case simdjson::UNCLOSED_STRING: return "unterminated string";
    case simdjson::UNESCAPED_CHARS: return "unescaped control character in a string";
    case simdjson::STRING_ERROR: return "invalid escape sequence in a string";
    case simdjson::NUMBER_ERROR: return "invalid number";
    case simdjson::NUMBER_OUT_OF_RANGE: return "number out of range";
    case simdjson::INCORRECT_TYPE: return "unexpected value type";
    case simdjson::DEPTH_ERROR: return "objects and arrays are nested too deeply";
    default: return "syntax error";
  }
}

}  // namespace

Document::Document(Bytes text, Bytes bytes_after)
    : text_(as_text(text)),
      capacity_(text.size() + bytes_after.size()),
      own_(std::in_place),
      scratch_(*own_) {
  if (bytes_after.size() < simdjson::SIMDJSON_PADDING) copy_padded();
}

Document::Document(Bytes text, Scratch& scratch)
    : text_(as_text(text)), capacity_(text.size()), scratch_(scratch) {
  copy_padded();
}

void Document::copy_padded() {
  auto& copy = scratch_.copy;
  copy.resize(std::max(copy.size(), text_.size() + simdjson::SIMDJSON_PADDING));
  std::ranges::copy(text_, copy.begin());
  text_ = std::string_view(copy.data(), text_.size());
  capacity_ = copy.size();
}

std::optional<Problem> Document::open() {
  // A closing brace at the end ensures that a number or string does not continue beyond the text.
  const auto last = text_.find_last_not_of(white_space);
  const auto first = text_.find_first_not_of(white_space);
  if (last == std::string_view::npos) return Problem{"text is empty", 0};
  if (text_[first] != '{') return Problem{"text does not start with '{'", first};
  if (text_[last] != '}') return Problem{"text does not end with '}'", last};
  auto& parser = scratch_.parser;
  if (parser.capacity() < text_.size() || parser.max_depth() != max_depth + 2) {
    if (const auto error = parser.allocate(text_.size(), max_depth + 2)) return problem_of(error);
  }
  if (const auto error = parser.iterate(text_.data(), text_.size(), capacity_).get(document_)) {
    return Problem{describe_error(error), 0, error == simdjson::UTF8_ERROR};
  }
  if (const auto error = document_.get_object().get(object_)) return problem_of(error);
  return std::nullopt;
}

std::optional<Problem> Document::close() {
  const char* rest = nullptr;
  if (document_.current_location().get(rest) == simdjson::SUCCESS) {
    return Problem{"text continues after the object", static_cast<std::uint64_t>(rest - text_.data())};
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Document::offset_of(std::string_view key) const noexcept {
  const std::less<> before;
  if (before(key.data(), text_.data()) || !before(key.data(), text_.data() + text_.size()))
    return std::nullopt;
  return static_cast<std::uint64_t>(key.data() - text_.data());
}

Problem Document::problem(std::string_view message) {
  const char* at = nullptr;
  if (document_.current_location().get(at) != simdjson::SUCCESS) at = text_.data() + text_.size();
  return {message, static_cast<std::uint64_t>(at - text_.data())};
}

Problem Document::problem_of(simdjson::error_code error) {
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  return problem(describe_error(error));
}

Outcome<std::string_view> Document::key_of(Field& field) {
  // Most keys have no escapes and are returned as views of the text.
  const char* const begin = field.key().raw();
  const auto* const end = static_cast<const char*>(
      std::memchr(begin, '"', static_cast<std::size_t>(text_.data() + text_.size() - begin)));
  if (end == nullptr) return tl::unexpected(problem("unterminated string"));
  const std::string_view raw(begin, static_cast<std::size_t>(end - begin));
  if (raw.find('\\') == std::string_view::npos) return raw;
  std::string_view key;
  if (const auto error = field.unescaped_key().get(key)) return tl::unexpected(problem_of(error));
  return key;
}

Outcome<std::uint64_t> Document::unsigned_integer(Value& value) {
  std::uint64_t number = 0;
  if (value.get_uint64().get(number))
    return tl::unexpected(problem("number is not an integer from 0 to 2^64-1"));
  return number;
}

Outcome<std::string_view> Document::text(Value& value) {
  std::string_view text;
  if (const auto error = value.get_string().get(text)) return tl::unexpected(problem_of(error));
  return text;
}

std::optional<Problem> Document::check(Value& value, std::size_t depth) {  // NOLINT(misc-no-recursion)
  const auto pass_on = [](const Problem& found) { return found; };
  const auto error_of = [&](const auto& read) -> std::optional<Problem> {
    if (read.error() != simdjson::SUCCESS) return problem_of(read.error());
    return std::nullopt;
  };
  Type type{};
  if (const auto error = value.type().get(type)) return problem_of(error);
  const bool nests = type == Type::object || type == Type::array;
  if (nests && depth > max_depth) return problem(describe_error(simdjson::DEPTH_ERROR));
  switch (type) {
    case Type::object:
      return each_field<Problem>(
          value, [&](std::string_view, Value& inner) { return check(inner, depth + 1); }, pass_on);
    case Type::array:
      return each_element<Problem>(value, [&](Value& inner) { return check(inner, depth + 1); }, pass_on);
    case Type::string: return error_of(value.get_string());
    case Type::number: return error_of(value.get_double());
    case Type::boolean: return error_of(value.get_bool());
    case Type::null: {
      bool null = false;
      if (const auto error = value.is_null().get(null)) return problem_of(error);
      if (null) return std::nullopt;
    }
  }
  return problem("syntax error");
}

}  // namespace ht::inline v1::json
