// What the formats share: errors about a broken file, refusals of what a format cannot carry, and where data
// begins behind an edited header.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/encode.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/format_text.hpp"

namespace ht::inline v1 {

/// The format of a message, checked when it is compiled, and the line of the source that has it.
template <class... Args>
struct MessageFormat {
  template <std::convertible_to<std::string_view> Text>
  consteval MessageFormat(const Text& text, SourceLine line = SourceLine::here())
      : format(text), where(line) {}

  fmt::format_string<Args...> format;
  SourceLine where;
};

/// A byte of the file, and the tensor that is concerned, if there is one.
struct FilePlace {
  std::uint64_t offset = 0;
  std::string_view tensor{};
};

[[nodiscard]] Error broken_at(ErrorCode code, std::string_view rule, const FilePlace& place,
                              std::string message, SourceLine where);

/// An Error at a place of the file. The hint is to download the file again where its end is wrong, to raise
/// the limit where its header is too large, else to write it again.
template <class... Args>
[[nodiscard]] Error broken(ErrorCode code, std::string_view rule, const FilePlace& place,
                           MessageFormat<std::type_identity_t<Args>...> message, Args&&... args) {
  return broken_at(code, rule, place, vformat_text(message.format, fmt::make_format_args(args...)),
                   message.where);
}

/// `truncated` where the file ends before the data does.
[[nodiscard]] Result<void> check_data_is_there(std::uint64_t data_end, std::uint64_t file_bytes);

/// `would_lose`: what a format cannot carry is refused before anything is written.
template <class... Args>
[[nodiscard]] Error lost(std::string_view rule, const Entry& entry, std::string_view hint,
                         MessageFormat<std::type_identity_t<Args>...> message, Args&&... args) {
  return Error(ErrorCode::would_lose, rule, vformat_text(message.format, fmt::make_format_args(args...)),
               message.where)
      .at_tensor(entry.name)
      .with_hint(hint);
}

/// `would_lose` unless the tensor is of a known dense dtype, in row-major order and little endian: what every
/// format carries. `format` is for the message.
[[nodiscard]] Result<void> check_plain(const Entry& entry, std::string_view format);

/// `would_lose` for metadata where a format has no place for it.
[[nodiscard]] Result<void> check_no_metadata(const Catalog& catalog, std::string_view format);

/// `size_overflow` for a file that 64 bits cannot measure.
[[nodiscard]] Error file_too_large(SourceLine where = SourceLine::here());

/// Where data begins behind a header that needs this many bytes, if it began at `old_bytes`: there, or, where
/// it may, later, by whole blocks, so that they can be shared, and with some room for the next edit. A file
/// without data has none to move. `header_too_large`.
[[nodiscard]] Result<std::uint64_t> data_begin_for(std::uint64_t needed, std::uint64_t old_bytes,
                                                   const HeaderEdit& edit);
/// The same, later in any case.
[[nodiscard]] std::uint64_t later_begin(std::uint64_t needed, std::uint64_t old_bytes);

/// The characters of bytes.
[[nodiscard]] inline std::string_view as_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ht::inline v1
