#include "cli/output_buffer.hpp"

#include <algorithm>

#include "cli/cli.hpp"
#include "cli/text.hpp"

namespace ht::cli {

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
