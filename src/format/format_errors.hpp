// Shared code of the formats: errors about malformed files, errors about data that a format cannot store, and
// the offset of the data after an edited header.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/format.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/format_text.hpp"

namespace ht::inline v1 {

/// The format string of a message, checked at compile time, and the source line that contains it.
template <class... Args>
struct MessageFormat {
  template <std::convertible_to<std::string_view> Text>
  consteval MessageFormat(const Text& text, SourceLine line = SourceLine::here())
      : format(text), where(line) {}

  fmt::format_string<Args...> format;
  SourceLine where;
};

/// An offset in the file, and the tensor concerned, if any.
struct FilePlace {
  std::uint64_t offset = 0;
  std::string_view tensor{};
};

[[nodiscard]] Error broken_at(ErrorCode code, std::string_view rule, const FilePlace& place,
                              std::string message, SourceLine where);

/// An Error at a place of the file. The hint depends on the code: for `truncated` and `trailing_bytes`,
/// download the file again; for `header_too_large`, raise the limit; for any other code, write the file
/// again.
template <class... Args>
[[nodiscard]] Error broken(ErrorCode code, std::string_view rule, const FilePlace& place,
                           MessageFormat<std::type_identity_t<Args>...> message, Args&&... args) {
  return broken_at(code, rule, place, vformat_text(message.format, fmt::make_format_args(args...)),
                   message.where);
}

/// `truncated` where the file ends before the data does.
[[nodiscard]] Result<void> check_data_is_complete(std::uint64_t data_end, std::uint64_t file_bytes);

/// `would_lose` for data that a format cannot store; it is reported before the first write.
template <class... Args>
[[nodiscard]] Error would_lose_error(std::string_view rule, const Entry& entry, std::string_view hint,
                                     MessageFormat<std::type_identity_t<Args>...> message, Args&&... args) {
  return Error(ErrorCode::would_lose, rule, vformat_text(message.format, fmt::make_format_args(args...)),
               message.where)
      .at_tensor(entry.name)
      .with_hint(hint);
}

/// `would_lose` if the tensor is untyped, encoded in blocks, column-major or big-endian, or has a note. An
/// encoder whose format can store one of these properties, such as big-endian data, first resets the member
/// in a copy of the entry and passes the copy. `format` is the name for the message.
[[nodiscard]] Result<void> check_plain(const Entry& entry, std::string_view format);

/// `size_mismatch` unless the tensor has the size of its dtype or block encoding and its shape. The size of a
/// user-defined dtype is not known here, so any size is accepted.
[[nodiscard]] Result<void> check_data_size(const Entry& entry);

/// `would_lose` if the catalog has metadata, for formats without metadata.
[[nodiscard]] Result<void> check_no_metadata(const Catalog& catalog, std::string_view format);

/// `size_overflow` for a file of more than 2^64 - 1 bytes.
[[nodiscard]] Error file_too_large(SourceLine where = SourceLine::here());

/// `internal` for an edit whose `prefix` ends before the header does.
[[nodiscard]] Error incomplete_header(const Format::HeaderEdit& edit, SourceLine where = SourceLine::here());

/// The offset of the data after an edit. If the new header of `needed` bytes fits before `old_data_begin`,
/// the data stays there. Otherwise the data moves as in `moved_data_begin`, if `edit.grow` is set or the file
/// has no data; else `header_too_large`.
[[nodiscard]] Result<std::uint64_t> data_begin_for(std::uint64_t needed, std::uint64_t old_data_begin,
                                                   const Format::HeaderEdit& edit);
/// The offset of data that moves towards the end of the file, always by a multiple of 4096 bytes: the file
/// system can then share the blocks of the data between the old and the new file (reflink). At least 1 KiB
/// after the new header is free for later edits.
[[nodiscard]] std::uint64_t moved_data_begin(std::uint64_t needed, std::uint64_t old_data_begin);

/// The bytes as characters.
[[nodiscard]] inline std::string_view as_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ht::inline v1
