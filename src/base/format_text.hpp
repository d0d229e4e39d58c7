// Formats the text of an Error. The text is empty when out of memory. Does not throw.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <htensor/base/result.hpp>
#include <string>

namespace ht::inline v1 {

/// fmt::format without exceptions and with a size limit. An Error without text describes itself by its code.
/// Not a template, so that fmt is not compiled again in every file.
[[nodiscard]] std::string vformat_text(fmt::string_view format, fmt::format_args args) noexcept;

template <class... Args>
[[nodiscard]] std::string format_text(fmt::format_string<Args...> format, Args&&... args) noexcept {
  return vformat_text(format, fmt::make_format_args(args...));
}

/// `out_of_memory` with the number of bytes that could not be allocated. Does not throw.
[[nodiscard]] inline Error out_of_memory(std::uint64_t bytes,
                                         SourceLine where = SourceLine::here()) noexcept {
  return {ErrorCode::out_of_memory, {}, format_text("out of memory: {} bytes", bytes), where};
}

}  // namespace ht::inline v1
