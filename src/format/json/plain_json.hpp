// Reads JSON in the spelling that most writers use, much faster than a JSON parser.
//
// A header of 600,000 tensors mostly repeats the same few words. A reader that expects exactly these words
// only compares them: it needs no index of the text and no dispatch on each value. Any other input (white
// space, an escape, a character outside ASCII, another order) is not an error here: format/json/json.hpp then
// reads the whole text, and it alone reports errors. Both must agree on every text that is accepted here.
#pragma once

#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace ht::inline v1::json {

class PlainReader {
 public:
  /// The text has to stay alive and unchanged.
  explicit PlainReader(std::string_view text) noexcept : at_(text.data()), end_(text.data() + text.size()) {}

  [[nodiscard]] bool done() const noexcept { return at_ == end_; }

  /// Skips `letter` or `word` if the rest of the text starts with it. Returns whether it does.
  [[nodiscard]] bool take(char letter) noexcept {
    if (at_ == end_ || *at_ != letter) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] bool take(std::string_view word) noexcept {
    if (!std::string_view(at_, end_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  /// The rest of a string after its opening quote; skips the closing quote. nullopt if it has an escape, a
  /// control character or a character outside ASCII, or is unterminated.
  [[nodiscard]] std::optional<std::string_view> string() noexcept {
    const char* const begin = at_;
    const char* end = begin;
    for (std::uint64_t word = 0; end_ - end >= static_cast<std::ptrdiff_t>(sizeof(word));
         end += sizeof(word)) {
      std::memcpy(&word, end, sizeof(word));
      if (has_special(word)) break;
    }
    while (end != end_ && !is_special(*end)) ++end;
    if (end == end_ || *end != '"') return std::nullopt;
    at_ = end + 1;
    return std::string_view(begin, end);
  }

  /// An integer from 0 to 2^64 - 1: digits only, without leading zeros.
  [[nodiscard]] std::optional<std::uint64_t> unsigned_integer() noexcept {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(at_, end_, number);
    if (error != std::errc() || (*at_ == '0' && end - at_ > 1)) return std::nullopt;
    at_ = end;
    return number;
  }

 private:
  static constexpr bool is_special(char letter) noexcept {
    const auto code = static_cast<unsigned char>(letter);
    return code < 0x20 || code >= 0x80 || letter == '"' || letter == '\\';
  }

  // Whether one of the eight bytes is special. A subtraction borrows only from the byte above a special byte,
  // so a borrow cannot cause a false positive.
  static constexpr bool has_special(std::uint64_t word) noexcept {
    constexpr std::uint64_t ones = 0x0101'0101'0101'0101;
    constexpr std::uint64_t highs = 0x8080'8080'8080'8080;
    const std::uint64_t quotes = word ^ (ones * '"');
    const std::uint64_t backslashes = word ^ (ones * '\\');
    // The high bit of a byte is set where the byte is outside ASCII, below 0x20, a quote, a backslash.
    return ((word | (word - ones * 0x20) | (quotes - ones) | (backslashes - ones)) & highs) != 0;
  }

  const char* at_;
  const char* end_;
};

}  // namespace ht::inline v1::json
