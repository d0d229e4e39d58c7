// Words for an Error: where there is no memory for them, there are none, and nothing is thrown.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <new>
#include <string>

namespace ht::inline v1 {

/// fmt::format without its exceptions. An Error without words describes itself by its code.
template <class... Args>
[[nodiscard]] std::string format_text(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    return fmt::format(format, std::forward<Args>(args)...);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace ht::inline v1
