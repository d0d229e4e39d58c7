#include "base/format_text.hpp"

#include <iterator>
#include <new>

namespace ht::inline v1 {

// Slightly more than the maximum size of an Error's text, so that the Error itself truncates a longer text
// and appends "…". Also limits the memory for names or shapes from a file.
constexpr std::size_t max_text_bytes = 2048;

std::string vformat_text(fmt::string_view format, fmt::format_args args) noexcept {
  try {
    std::string text;
    fmt::vformat_to_n(std::back_inserter(text), max_text_bytes, format, args);
    return text;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace ht::inline v1
