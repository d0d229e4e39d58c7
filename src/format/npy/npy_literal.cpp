#include <algorithm>
#include <array>
#include <charconv>
#include <htensor/base/utf8.hpp>

#include "base/format_text.hpp"
#include "format/npy/npy.hpp"
#include "format/npy/npy_header.hpp"

namespace ht::inline v1::format_npy {
namespace {

constexpr std::array<std::string_view, 3> keys{"descr", "fortran_order", "shape"};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class LiteralReader {
 public:
  LiteralReader(std::string_view text, std::uint64_t begin) : text_(text), begin_(begin) {}

  Result<Literal> read() {
    if (!take('{')) return fail(expected("'{'"));
    while (!take('}')) {
      HT_TRY(read_item());
      if (take(',')) continue;
      if (!take('}')) return fail(expected("',' or '}'"));
      break;
    }
    for (std::size_t key = 0; key < keys.size(); ++key) {
      if (!has_[key]) {
        return fail(malformed(ErrorCode::bad_header, "npy_header_has_all_keys",
                              format_text("header key '{}' is missing", keys[key]), begin_));
      }
    }
    skip_space();
    if (at_ != text_.size()) {
      return fail(malformed(ErrorCode::bad_header, "npy_header_ends_with_its_dict",
                            format_text("{} follows the dict in the header", found()), here()));
    }
    return std::move(literal_);
  }

 private:
  Result<void> read_item() {
    skip_space();
    const std::uint64_t key_at = here();
    const std::string_view key = HT_TRY(read_string());
    const auto known = static_cast<std::size_t>(std::ranges::find(keys, key) - keys.begin());
    if (known == keys.size()) {
      return fail(malformed(ErrorCode::bad_header, "npy_header_has_no_other_keys",
                            format_text("header key '{}' is unknown", shown(key)), key_at));
    }
    if (has_[known]) {
      return fail(malformed(ErrorCode::duplicate_key, "npy_header_has_each_key_once",
                            format_text("header key '{}' occurs twice", key), key_at));
    }
    has_[known] = true;
    if (!take(':')) return fail(expected("':'"));
    skip_space();
    if (known == 0) return read_descr_text();
    if (known == 1) return read_order();
    return read_shape();
  }

  Result<void> read_descr_text() {
    literal_.descr_at = here();
    if (front() == '[' || front() == '(') {
      return fail(
          malformed(ErrorCode::bad_dtype, "npy_dtype_has_no_fields",
                    "dtype is a list of fields (structured array)", literal_.descr_at)
              .with_hint("save each field to a file of its own: numpy.save(\"x.npy\", array[\"x\"])"));
    }
    literal_.descr = HT_TRY(read_string());
    return {};
  }

  Result<void> read_order() {
    const std::size_t begin = at_;
    while (is_letter(front())) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word != "True" && word != "False") {
      return fail(malformed(ErrorCode::bad_header, "npy_fortran_order_is_true_or_false",
                            format_text("fortran_order is '{}', not True or False",
                                        shown(text_.substr(begin, std::max<std::size_t>(word.size(), 1)))),
                            begin_ + begin));
    }
    literal_.fortran_order = word == "True";
    return {};
  }

  Result<void> read_shape() {
    literal_.shape_at = here();
    if (!take('(')) return fail(no_tuple());
    auto& shape = literal_.shape;
    while (!take(')')) {
      if (shape.size() == max_rank) {
        return fail(malformed(ErrorCode::bad_shape, "npy_rank_is_at_most_64",
                              format_text("shape has more than {} dimensions", max_rank), here()));
      }
      shape.push_back(HT_TRY(read_dim()));
      if (take(',')) continue;
      if (!take(')')) return fail(expected("',' or ')'"));
      // In Python, (3) is the number 3.
      if (shape.size() == 1) return fail(no_tuple());
      break;
    }
    return {};
  }

  Result<std::int64_t> read_dim() {
    skip_space();
    const std::size_t begin = at_;
    if (front() == '-') {
      return fail(malformed(ErrorCode::bad_shape, "dims_are_not_negative",
                            format_text("dimension {} of the shape is negative", literal_.shape.size()),
                            here()));
    }
    std::int64_t dim = 0;
    const auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + text_.size(), dim);
    if (error == std::errc::result_out_of_range) {
      return fail(malformed(ErrorCode::size_overflow, "dims_fit_63_bits",
                            format_text("dimension {} of the shape exceeds 2^63-1", literal_.shape.size()),
                            begin_ + begin));
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    const std::size_t digits = at_ - begin;
    // Python 2 wrote long numbers as 3L.
    if (digits > 0 && front() == 'L') ++at_;
    const bool goes_on = is_digit(front()) || is_letter(front()) || front() == '.';
    if (digits == 0 || goes_on || (digits > 1 && text_[begin] == '0')) {
      return fail(malformed(ErrorCode::bad_shape, "npy_dims_are_whole_numbers",
                            format_text("dimension {} of the shape is not an integer: '{}'",
                                        literal_.shape.size(), shown(text_.substr(begin, at_ - begin + 1))),
                            begin_ + begin));
    }
    return dim;
  }

  /// A text in single or double quotes. Escapes are refused: nothing that is known here needs one.
  Result<std::string_view> read_string() {
    skip_space();
    const char quote = front();
    if (quote != '\'' && quote != '"') return fail(expected("a quoted string"));
    const std::size_t begin = at_ + 1;
    const std::array<char, 5> stops{quote, '\\', '\n', '\r', '\0'};
    const auto end = text_.find_first_of(std::string_view(stops.data(), stops.size()), begin);
    at_ = std::min(end, text_.size());
    if (front() != quote) {
      return fail(malformed(
          ErrorCode::bad_header, "npy_texts_are_closed_and_plain",
          format_text("string at byte {} has {} before its closing quote", begin_ + begin - 1, found()),
          here()));
    }
    ++at_;
    return text_.substr(begin, end - begin);
  }

  Error no_tuple() const {
    return malformed(ErrorCode::bad_shape, "npy_shape_is_a_tuple",
                     "shape is not a tuple of integers such as (2, 3), (3,) or ()", literal_.shape_at);
  }

  Error expected(std::string_view what, SourceLine where = SourceLine::here()) const {
    return malformed(ErrorCode::bad_header, "npy_header_is_a_dict_literal",
                     format_text("header has {1} where {0} is expected", what, found()), here(), where);
  }

  [[nodiscard]] std::string found() const {
    if (at_ == text_.size()) return "the end of the header";
    const char c = text_[at_];
    if (c > ' ' && c < 0x7F) return format_text("'{}'", c);
    return format_text("byte {:#04x}", static_cast<unsigned char>(c));
  }

  void skip_space() {
    while (is_space(front())) ++at_;
  }
  bool take(char wanted) {
    skip_space();
    if (at_ == text_.size() || front() != wanted) return false;
    ++at_;
    return true;
  }
  /// NUL at the end, which is as foreign to a header as its end.
  [[nodiscard]] char front() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] std::uint64_t here() const { return begin_ + at_; }

  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
  std::array<bool, keys.size()> has_{};
  Literal literal_;
};

}  // namespace

Error malformed(ErrorCode code, std::string_view rule, std::string message, std::uint64_t offset,
                SourceLine where) {
  return Error(code, rule, std::move(message), where)
      .at_offset(offset)
      .with_hint("save the array again with numpy.save");
}

std::string shown(std::string_view text) {
  constexpr std::size_t most = 40;
  return to_utf8(text.substr(0, most)) + (text.size() > most ? "…" : "");
}

Result<Literal> read_literal(std::string_view text, std::uint64_t begin) {
  return LiteralReader(text, begin).read();
}

}  // namespace ht::inline v1::format_npy
