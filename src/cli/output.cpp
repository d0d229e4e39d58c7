#include "cli/output.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "cli/cli.hpp"
#include "cli/progress.hpp"
#include "cli/text.hpp"

namespace ht::cli {
namespace {

constexpr std::string_view path_key = R"({"path":)";

// The block that is being printed.
struct Block {
  Frame frame = Frame::none;
  std::string opening{};
  bool has_printed = false;
  bool is_line_begun = false;
};

Block block;
bool has_any_output = false;
bool ends_within_a_line = false;

// A failure sticks to the stream and is reported once, at the end.
void write(std::string_view text) {
  if (text.empty()) return;  // its address may be null
  erase_progress();
  has_any_output = true;
  ends_within_a_line = !text.ends_with('\n');
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stdout));
}

void write_object_start(std::string_view& text) {
  // The verb's own "path" is before any object within this one.
  if (text.substr(0, text.find('{', 1)).find(R"("path":)") != std::string_view::npos) return;
  text.remove_prefix(1);  // its brace is in the opening
  write(block.opening);
}

void write_object(std::string_view text) {
  if (!block.has_printed) write_object_start(text);
  // The only newline is the last one: JSON escapes newlines in strings.
  while (text.ends_with('\n')) text.remove_suffix(1);
  write(text);
}

void write_lines(std::string_view text) {
  while (!text.empty()) {
    if (!block.is_line_begun) write_object_start(text);
    const auto end = text.find('\n');
    block.is_line_begun = end == std::string_view::npos;
    const auto line = text.substr(0, block.is_line_begun ? text.size() : end + 1);
    write(line);
    text.remove_prefix(line.size());
  }
}

}  // namespace

void begin_block(std::string_view path, Frame frame) {
  block = {.frame = frame};
  if (frame == Frame::heading) {
    block.opening = fmt::format("{}{}:\n", has_any_output ? "\n" : "", printable(path));
  } else if (frame != Frame::none) {
    block.opening = fmt::format("{}{},", path_key, json_string(path));
  }
}

void end_block() { block = {.has_printed = true}; }

bool is_line_open() noexcept { return ends_within_a_line && isatty(STDOUT_FILENO) != 0; }

bool has_printed() noexcept { return block.has_printed; }

void print(std::string_view text) {
  if (text.empty()) return;
  if (block.frame == Frame::json_object) {
    write_object(text);
  } else if (block.frame == Frame::json_lines) {
    write_lines(text);
  } else {
    if (!block.has_printed) write(block.opening);
    write(text);
  }
  block.has_printed = true;
}

void print_error(std::string_view text) {
  erase_progress();
  static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

OutputBuffer& OutputBuffer::append_large(std::string_view text) {
  while (!text.empty()) {
    if (used_ == capacity) flush();
    const std::size_t part = std::min(text.size(), capacity - used_);
    text.copy(&buffer_[used_], part);
    used_ += part;
    text.remove_prefix(part);
  }
  return *this;
}

void OutputBuffer::append_many_spaces(std::size_t count) {
  while (count > 0) {
    if (used_ == capacity) flush();
    const std::size_t part = std::min(count, capacity - used_);
    std::memset(&buffer_[used_], ' ', part);
    used_ += part;
    count -= part;
  }
}

void OutputBuffer::flush() {
  const std::string_view text(buffer_.get(), used_);
  used_ = 0;
  if (into_ != nullptr) {
    into_->append(text);
  } else {
    print(text);
  }
}

void append_json_string(OutputBuffer& out, std::string_view text) {
  if (is_plain_json(text)) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  std::string escaped;
  append_json_string(escaped, text);
  out += escaped;
}

void append_shape(OutputBuffer& out, std::span<const std::int64_t> dims, std::string_view separator) {
  out += '[';
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += separator;
    out.append_number(static_cast<std::uint64_t>(dims[i]));
  }
  out += ']';
}

void vappend_text(OutputBuffer& out, fmt::string_view format, fmt::format_args args) {
  fmt::memory_buffer text;
  fmt::vformat_to(std::back_inserter(text), format, args);
  out += std::string_view(text.data(), text.size());
}

}  // namespace ht::cli
