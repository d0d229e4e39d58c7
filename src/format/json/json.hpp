// Strict JSON for headers, based on simdjson On-Demand.
//
// On-Demand does not validate values that it skips, so unused values go through `check`. Nesting is bounded,
// and the text must be UTF-8. Only integers are read as numbers; `check` also accepts other numbers.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <optional>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace ht::inline v1::json {

using Value = simdjson::ondemand::value;
using Field = simdjson::ondemand::field;
using Type = simdjson::ondemand::json_type;

/// An error and its byte offset in the text.
struct Problem {
  std::string_view message;
  std::uint64_t offset = 0;
  bool is_bad_utf8 = false;
};

template <class T>
using Outcome = tl::expected<T, Problem>;

inline constexpr std::string_view white_space = " \t\r\n";

/// Maximum nesting of objects and arrays; the limit of the safetensors reference reader.
inline constexpr std::size_t max_depth = 127;

/// Working memory of the parser, which can be reused for many short texts, one after another.
struct Scratch {
  simdjson::ondemand::parser parser;
  std::vector<char> copy;
};

/// A text of one object, with optional white space around it.
class Document {
 public:
  /// `bytes_after` are the bytes directly after `text` in memory. If there are enough of them for simdjson to
  /// read ahead, the text is not copied. Both must stay alive and unchanged.
  explicit Document(Bytes text, Bytes bytes_after = {});
  /// Reuses the memory of an earlier document, whose results become invalid.
  Document(Bytes text, Scratch& scratch);
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  ~Document() = default;

  /// Calls `on_field(key, value)` for each member, in order. `on_field` returns an optional E: nullopt
  /// continues, an E stops. Returns that E, the E of `on_problem` for malformed text, or nullopt after all
  /// members.
  template <class E, class OnField, class OnProblem>
  std::optional<E> each(OnField&& on_field, OnProblem&& on_problem) {
    if (const auto problem = open()) return on_problem(*problem);
    if (auto answer = each_member<E>(object_, on_field, on_problem)) return answer;
    if (const auto problem = close()) return on_problem(*problem);
    return std::nullopt;
  }

  // The same for nested objects, and for arrays, where `on_element(value)` is called for each element.
  template <class E, class OnField, class OnProblem>
  std::optional<E> each_field(Value& value, OnField&& on_field, OnProblem&& on_problem) {
    simdjson::ondemand::object object;
    if (const auto error = value.get_object().get(object)) return on_problem(problem_of(error));
    return each_member<E>(object, on_field, on_problem);
  }
  template <class E, class OnElement, class OnProblem>
  std::optional<E> each_element(Value& value, OnElement&& on_element, OnProblem&& on_problem) {
    simdjson::ondemand::array array;
    if (const auto error = value.get_array().get(array)) return on_problem(problem_of(error));
    for (auto entry : array) {
      Value element;
      if (const auto error = std::move(entry).get(element)) return on_problem(problem_of(error));
      if (auto answer = on_element(element)) return answer;
    }
    return std::nullopt;
  }

  /// Whether the value has this type. Looks only at its first character, so the value may be malformed.
  [[nodiscard]] static bool is(Value& value, Type expected_type) noexcept {
    Type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == expected_type;
  }
  /// An integer from 0 to 2^64 - 1, written as digits only.
  [[nodiscard]] Outcome<std::uint64_t> unsigned_integer(Value& value);
  /// The unescaped string. It is valid as long as the document.
  [[nodiscard]] Outcome<std::string_view> text(Value& value);
  /// Validates a value that is not used. `depth` is its nesting depth; a member of the document has depth 2.
  [[nodiscard]] std::optional<Problem> check(Value& value, std::size_t depth = 2);

  /// The offset of a key in the document, for a key that was passed to `on_field`. nullopt if the key has
  /// escapes.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::string_view key) const noexcept;
  /// A problem at the current position.
  [[nodiscard]] Problem problem(std::string_view message);
  [[nodiscard]] Problem problem_of(simdjson::error_code error);

 private:
  template <class E, class OnField, class OnProblem>
  std::optional<E> each_member(simdjson::ondemand::object& object, OnField& on_field, OnProblem& on_problem) {
    for (auto entry : object) {
      Field field;
      if (const auto error = std::move(entry).get(field)) return on_problem(problem_of(error));
      const auto key = key_of(field);
      if (!key) return on_problem(key.error());
      Value value = field.value();
      if (auto answer = on_field(*key, value)) return answer;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::optional<Problem> open();
  [[nodiscard]] std::optional<Problem> close();
  [[nodiscard]] Outcome<std::string_view> key_of(Field& field);

  void copy_padded();

  std::string_view text_;
  std::size_t capacity_;
  std::optional<Scratch> own_;
  Scratch& scratch_;
  simdjson::ondemand::document document_;
  simdjson::ondemand::object object_;
};

}  // namespace ht::inline v1::json
