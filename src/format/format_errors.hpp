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

/// An Error at a place of the file. The hint is to download a file of the wrong size again, to raise the
/// limit for a header that is too large, and otherwise to write the file again.
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

/// `would_lose` unless the tensor is typed, dense, row-major, little-endian and without a note. A format that
/// can store more clears these members in a copy first. `format` is the name for the message.
[[nodiscard]] Result<void> check_plain(const Entry& entry, std::string_view format);

/// `size_mismatch` unless the data of a dense tensor has the size of its dtype and shape. The size of a
/// user-defined dtype is not known here, so any size is accepted.
[[nodiscard]] Result<void> check_data_size(const Entry& entry);

/// `would_lose` if the catalog has metadata, for formats without metadata.
[[nodiscard]] Result<void> check_no_metadata(const Catalog& catalog, std::string_view format);

/// `size_overflow` for a file of more than 2^64 - 1 bytes.
[[nodiscard]] Error file_too_large(SourceLine where = SourceLine::here());

/// `internal` for an edit whose `prefix` ends before the header does.
[[nodiscard]] Error incomplete_header(const Format::HeaderEdit& edit, SourceLine where = SourceLine::here());

/// The offset of the data after an edit. `needed` is the size of the new header, `replaced_bytes` the old
/// offset of the data, which is kept if the header fits. Otherwise, if the data may move, it moves by whole
/// blocks, so that blocks can be shared, and leaves room for the next edit. A file without data can always
/// grow. `header_too_large` if the data must not move.
[[nodiscard]] Result<std::uint64_t> data_begin_for(std::uint64_t needed, std::uint64_t replaced_bytes,
                                                   const Format::HeaderEdit& edit);
/// The data offset if the data moves; always larger than `replaced_bytes`.
[[nodiscard]] std::uint64_t moved_data_begin(std::uint64_t needed, std::uint64_t replaced_bytes);

/// The bytes as characters.
[[nodiscard]] inline std::string_view as_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ht::inline v1
