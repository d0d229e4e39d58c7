// Reads JSON in the one spelling that most writers use, far faster than a JSON parser does.
//
// A header of 600,000 tensors is mostly the same few words. A reader that expects exactly these words
// compares and moves on: it needs no index of the text, and no decision at every value. Whatever it does not
// expect (white space, an escape, a character outside ASCII, another order) it does not judge: the whole text
// is then read by format/json.hpp, which alone reports errors. So both have to agree on every text that is
// read here.
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

  /// Whether the next characters are these; then they are passed.
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

  /// The rest of a string whose opening quote was passed, and passes its closing quote. nullopt where it has
  /// an escape, a control character or one outside ASCII, or does not end.
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

  /// A whole number from 0 to 2^64 - 1: digits alone, without a zero before others.
  [[nodiscard]] std::optional<std::uint64_t> natural() noexcept {
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

  // Whether one of the eight bytes is special. A subtraction borrows only from a byte above one that is
  // special itself.
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
