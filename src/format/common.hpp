// What the formats share: errors about a broken file, refusals of what a format cannot carry, and where data
// begins behind an edited header.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/format/encode.hpp>
#include <string>
#include <string_view>

namespace ht::inline v1 {

/// An Error at a byte of the file. The hint is to download the file again where its end is wrong, else to
/// write it again.
[[nodiscard]] Error broken(ErrorCode code, std::string_view rule, std::string message, std::uint64_t offset,
                           SourceLine where = SourceLine::here());

/// `truncated` where the file ends before the data does.
[[nodiscard]] Result<void> check_data_is_there(std::uint64_t data_end, std::uint64_t file_bytes);

/// `would_lose`: what a format cannot carry is refused before anything is written.
[[nodiscard]] Error lost(std::string_view rule, const Entry& entry, std::string message,
                         std::string_view hint, SourceLine where = SourceLine::here());

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

}  // namespace ht::inline v1
