// Text on its way to standard output: through one bounded buffer and, where a verb has several paths, in a
// frame for each.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <htensor/base/utf8.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ht::cli {

/// Collects text and prints it in pieces of 64 KiB, so that memory does not grow with the output. The
/// destructor prints the rest. Text given to `print` directly overtakes the text that is still collected.
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

  void append_number(std::uint64_t number) {
    if (capacity - used_ < max_digits) flush();
    char* const begin = &buffer_[used_];
    used_ += static_cast<std::size_t>(std::to_chars(begin, begin + max_digits, number).ptr - begin);
  }
  void append_spaces(std::size_t count) {
    if (count > short_run || capacity - used_ < short_run) return append_many_spaces(count);
    // A constant size is two stores; the spaces beyond the count are overwritten.
    std::memset(&buffer_[used_], ' ', short_run);
    used_ += count;
  }

  void flush();
  /// Drops the text that was not printed yet: an error found early takes the place of the output.
  void discard() noexcept { used_ = 0; }

 private:
  static constexpr std::size_t capacity = std::size_t{1} << 16;
  static constexpr std::size_t max_digits = 20;
  static constexpr std::size_t short_run = 32;

  void append_many_spaces(std::size_t count);
  OutputBuffer& append_large(std::string_view text);

  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(capacity);
  std::size_t used_ = 0;
  std::string* into_ = nullptr;
};

using ht::append_json_string;
/// Appends the text as a JSON string with its quotes.
void append_json_string(OutputBuffer& out, std::string_view text);
/// Appends `[4,8]`, or `[4, 8]` where the separator is ", ".
void append_shape(OutputBuffer& out, std::span<const std::int64_t> dims, std::string_view separator);

/// Appends formatted text, as the overloads for other buffers in text.hpp do.
void vappend_text(OutputBuffer& out, fmt::string_view format, fmt::format_args args);

enum class Frame : std::uint8_t {
  none,
  heading,      // the path on a line of its own
  json_object,  // "path" becomes the object's first key, and its newline is left out
  json_lines,   // "path" becomes the first key of each line
};

/// From now on `print` frames what it writes as output for this path. Nothing is written for a path without
/// output. An object that has the key "path", before any object within it, stays unchanged.
void begin_block(std::string_view path, Frame frame);
void end_block();

/// Whether anything was printed in the current block, or at all if no block was begun.
[[nodiscard]] bool has_printed() noexcept;

}  // namespace ht::cli
