// Buffered text for standard output, and error messages for the user.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/cli.hpp"

namespace ht::cli {

/// A text to be appended as a JSON string with its quotes.
struct JsonText {
  std::string_view text;
};

/// Buffers text and prints it in pieces of 64 KiB, so that memory does not grow with the output. The
/// destructor prints the rest. Text passed to `print` directly appears before text that is still buffered.
class OutputBuffer {
 public:
  OutputBuffer() = default;
  /// Appends to a string instead of printing. The string must outlive the OutputBuffer.
  explicit OutputBuffer(std::string& into) : into_(&into) {}
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;
  ~OutputBuffer() { flush(); }

  OutputBuffer& operator+=(std::string_view text) {
    if (text.size() > capacity - used_) return append_large(text);
    text.copy(&buffer_[used_], text.size());
    used_ += text.size();
    return *this;
  }
  OutputBuffer& operator+=(char character) { return *this += std::string_view(&character, 1); }
  OutputBuffer& operator+=(std::uint64_t number) {
    if (capacity - used_ < max_digits) flush();
    char* const begin = &buffer_[used_];
    used_ += static_cast<std::size_t>(std::to_chars(begin, begin + max_digits, number).ptr - begin);
    return *this;
  }
  /// Appends null for nullopt.
  OutputBuffer& operator+=(std::optional<std::uint64_t> number) {
    return number ? (*this += *number) : (*this += "null");
  }
  OutputBuffer& operator+=(JsonText json);
  template <class... Parts>
  void append(const Parts&... parts) {
    ((*this += parts), ...);
  }
  void append_spaces(std::size_t count) {
    for (std::size_t part = 0; count > 0; count -= part) {
      if (capacity - used_ < short_run) flush();
      // memset of a constant size compiles to two stores; the spaces beyond the count are overwritten.
      std::memset(&buffer_[used_], ' ', short_run);
      part = std::min(count, short_run);
      used_ += part;
    }
  }

  void flush();
  /// Drops text that was not printed yet, so that an early error replaces the output.
  void discard() noexcept { used_ = 0; }

 private:
  static constexpr std::size_t capacity = std::size_t{1} << 16;
  static constexpr std::size_t max_digits = 20;
  static constexpr std::size_t short_run = 32;

  OutputBuffer& append_large(std::string_view text);

  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(capacity);
  std::size_t used_ = 0;
  std::string* into_ = nullptr;
};

/// Appends `[4,8]`, or `[4, 8]` if the separator is ", ".
void append_shape(OutputBuffer& out, std::span<const std::int64_t> dims, std::string_view separator);

/// Appends formatted text, as the overloads for other buffers in text.hpp do.
void vappend_text(OutputBuffer& out, fmt::string_view format, fmt::format_args args);

/// Call this function before `report` if an error occurs between two elements of a list. If nothing was
/// printed yet, discards the buffered text. Otherwise keeps that text. With `is_json`, the list must be the
/// value of a key of the printed object: this function closes the list, and `report` then adds the error as
/// the last key of the object.
void end_list_early(OutputBuffer& out, bool is_json);

/// Writes a line to stderr, and below it the hint unless the hint is empty.
void print_diagnostic(std::string_view line, std::string_view hint);
/// Reports an error that ends the verb: on stderr or, with `json`, on stdout. On stdout, it is the last key
/// of an object that was printed in part (see `end_list_early`). If nothing or only complete lines were
/// printed, it is an object of its own. After other incomplete output, it goes to stderr.
[[nodiscard]] Exit report(const Error& error, bool json);

}  // namespace ht::cli
