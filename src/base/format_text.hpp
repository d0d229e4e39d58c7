// Words for an Error: where there is no memory for them, there are none, and nothing is thrown.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <string>

namespace ht::inline v1 {

/// A little more than an Error keeps of them, so that it sees that there was more. What a file chose, as a
/// name or a shape, takes no more memory than this on its way into a message.
inline constexpr std::size_t most_text_bytes = 2048;

/// fmt::format without its exceptions, and cut. An Error without words describes itself by its code.
/// The work is in a function that is no template: all of fmt would else be compiled anew for every file.
[[nodiscard]] std::string vformat_text(fmt::string_view format, fmt::format_args args) noexcept;

template <class... Args>
[[nodiscard]] std::string format_text(fmt::format_string<Args...> format, Args&&... args) noexcept {
  return vformat_text(format, fmt::make_format_args(args...));
}

}  // namespace ht::inline v1
