// Strict JSON for headers: simdjson's On-Demand, with every value looked at.
//
// On-Demand checks what it reads and not what it skips, so nothing is skipped here: a value that nobody wants
// goes through `check`. Depth is bounded, numbers are whole numbers or errors, text is UTF-8.
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

/// What is wrong, and at which byte of the text.
struct Problem {
  std::string_view what;
  std::uint64_t offset = 0;
  bool is_bad_utf8 = false;
};

template <class T>
using Outcome = tl::expected<T, Problem>;

inline constexpr std::string_view white_space = " \t\r\n";

/// Objects and arrays within each other; as the reference reader of safetensors has it.
inline constexpr std::size_t max_depth = 127;

/// What reading takes in memory. Many short texts are read with the same one, one after another.
struct Scratch {
  simdjson::ondemand::parser parser;
  std::vector<char> copy;
};

/// A text that holds one object and nothing more but white space around it.
class Document {
 public:
  /// `follows` are bytes that lie in memory straight behind `text`; where they are enough for simdjson to
  /// read ahead, nothing is copied. Both have to stay as they are.
  explicit Document(Bytes text, Bytes follows = {});
  /// With memory that was used before. What was read with it then is gone.
  Document(Bytes text, Scratch& scratch);
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  ~Document() = default;

  /// Calls `on_field(key, value)` for each member, in order, and ends at the first that answers something;
  /// that, or what is wrong with the text, is the answer.
  template <class E, class OnField, class OnProblem>
  std::optional<E> each(OnField&& on_field, OnProblem&& on_problem) {
    if (const auto problem = open()) return on_problem(*problem);
    if (auto answer = each_member<E>(object_, on_field, on_problem)) return answer;
    if (const auto problem = close()) return on_problem(*problem);
    return std::nullopt;
  }

  // The same for objects and arrays within it. `on_element(value)`.
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

  /// Whether a value begins as one of the type does.
  [[nodiscard]] static bool is(Value& value, Type wanted) noexcept {
    Type type{};
    return value.type().get(type) == simdjson::SUCCESS && type == wanted;
  }
  /// A whole number from 0 to 2^64 - 1, written as digits alone.
  [[nodiscard]] Outcome<std::uint64_t> natural(Value& value);
  /// A string without its escapes. It stays valid as long as the document does.
  [[nodiscard]] Outcome<std::string_view> text(Value& value);
  /// Reads all of a value that nobody wants.
  [[nodiscard]] std::optional<Problem> check(Value& value, std::size_t depth = 2);

  /// Where a key or text that was read begins, if it is there as it is: one with escapes is not.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(std::string_view read) const noexcept;
  /// The problem at the place that was read last.
  [[nodiscard]] Problem problem(std::string_view what);
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
