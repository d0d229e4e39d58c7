// Words for an Error: where there is no memory for them, there are none, and nothing is thrown.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <new>
#include <string>

namespace ht::inline v1 {

/// A little more than an Error keeps of them, so that it sees that there was more. What a file chose, as a
/// name or a shape, takes no more memory than this on its way into a message.
inline constexpr std::size_t most_text_bytes = 2048;

/// fmt::format without its exceptions, and cut. An Error without words describes itself by its code.
template <class... Args>
[[nodiscard]] std::string format_text(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    std::string text;
    fmt::format_to_n(std::back_inserter(text), most_text_bytes, format, std::forward<Args>(args)...);
    return text;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace ht::inline v1
