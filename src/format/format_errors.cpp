#include "format/format_errors.hpp"

#include <algorithm>
#include <bit>
#include <htensor/dtype/packed.hpp>

namespace ht::inline v1 {
namespace {

// File systems share data in disk blocks of this size.
constexpr std::uint64_t disk_block_bytes = 4096;
// A larger alignment of the old data is assumed to be accidental and is not kept.
constexpr std::uint64_t max_alignment = std::uint64_t{2} << 20;
// Free bytes after the new header, for later edits.
constexpr std::uint64_t room_bytes = 1024;

}  // namespace

Error broken_at(ErrorCode code, std::string_view rule, const FilePlace& place, std::string message,
                SourceLine where) {
  const bool has_wrong_size = code == ErrorCode::truncated || code == ErrorCode::trailing_bytes;
  return Error(code, rule, std::move(message), where)
      .at_offset(place.offset)
      .at_tensor(place.tensor)
      .with_hint(has_wrong_size ? "download the file again"
                 : code == ErrorCode::header_too_large
                     ? "raise the limit with --max-header SIZE if you trust the file"
                     : "write the file again with its exporter");
}

Result<void> check_data_is_complete(std::uint64_t data_end, std::uint64_t file_bytes) {
  if (data_end <= file_bytes) return {};
  return fail(broken(ErrorCode::truncated, "data_is_complete", {file_bytes},
                     "data ends at byte {} but the file has {} bytes", data_end, file_bytes));
}

Result<void> check_plain(const Entry& entry, std::string_view format) {
  if (entry.encoding != EncodingTag::dense) {
    const auto encoding = find_encoding(entry.encoding).value_or(Encoding{.name = "an unknown encoding"});
    return fail(would_lose_error("format_carries_the_encoding", entry, "convert to GGUF or IRPA instead",
                                 "tensor '{}': {} cannot store {}", entry.name, format, encoding.name));
  }
  if (!entry.is_typed()) {
    return fail(would_lose_error("format_carries_untyped_bytes", entry, "convert to IRPA instead",
                                 "tensor '{}': dtype and shape are unknown but {} needs both", entry.name,
                                 format));
  }
  if (!entry.is_row_major()) {
    return fail(would_lose_error("format_carries_the_order", entry,
                                 "transpose the tensor to row-major order first, or convert to NPY",
                                 "tensor '{}': {} cannot store column-major order", entry.name, format));
  }
  if (entry.byte_order != ByteOrder::little) {
    return fail(would_lose_error("format_carries_the_byte_order", entry,
                                 "byte-swap the tensor to little-endian first, or convert to GGUF",
                                 "tensor '{}': {} cannot store big-endian data", entry.name, format));
  }
  if (!entry.note.empty()) {
    return fail(would_lose_error("format_carries_the_note", entry, "convert to IRPA instead",
                                 "tensor '{}': {} cannot store its note, a text beyond dtype and shape",
                                 entry.name, format));
  }
  return {};
}

Result<void> check_data_size(const Entry& entry) {
  const auto encoding = find_encoding(entry.encoding);
  const auto dtype = find_dtype(entry.dtype);
  if (!encoding && !dtype) return {};
  const auto bytes = encoding ? block_bytes(entry.dims, *encoding) : dense_bytes(entry.dims, dtype->bits);
  if (bytes == entry.bytes) return {};
  return fail(
      Error(ErrorCode::size_mismatch, "data_size_matches_the_shape",
            format_text("tensor '{}', {} [{}]: data of {} bytes does not match the shape", entry.name,
                        encoding ? encoding->name : dtype->name, fmt::join(entry.dims, ", "), entry.bytes))
          .at_tensor(entry.name)
          .with_hint("pass the dtype and shape of the data"));
}

Result<void> check_no_metadata(const Catalog& catalog, std::string_view format) {
  if (catalog.metadata().empty()) return {};
  return fail(Error(ErrorCode::would_lose, "format_carries_metadata",
                    format_text("{} cannot store metadata; the model has {} keys such as '{}'", format,
                                catalog.metadata().size(), catalog.metadata()[0].key))
                  .with_hint("convert to safetensors, GGUF or IRPA instead"));
}

Error file_too_large(SourceLine where) {
  return Error(ErrorCode::size_overflow, "encoded_size_fits_64_bits", "file size exceeds 2^64-1 bytes", where)
      .with_hint("write fewer or smaller tensors to one file");
}

Error incomplete_header(const Format::HeaderEdit& edit, SourceLine where) {
  return Error(ErrorCode::internal, "edit_sees_the_whole_header",
               format_text("header to edit is incomplete in the first {} bytes of a file of {} bytes",
                           edit.prefix.size(), edit.file_bytes),
               where)
      .with_hint("pass at least the whole header in Format::HeaderEdit");
}

std::uint64_t moved_data_begin(std::uint64_t needed, std::uint64_t old_data_begin) {
  const std::uint64_t alignment = std::uint64_t{1} << std::countr_zero(old_data_begin | max_alignment);
  const std::uint64_t step = std::max(alignment, disk_block_bytes);
  const std::uint64_t grown = std::max(needed + room_bytes, old_data_begin + 1);
  return old_data_begin + (grown - old_data_begin + step - 1) / step * step;
}

Result<std::uint64_t> data_begin_for(std::uint64_t needed, std::uint64_t old_data_begin,
                                     const Format::HeaderEdit& edit) {
  if (needed <= old_data_begin) return old_data_begin;
  if (edit.grow || old_data_begin == edit.file_bytes) return moved_data_begin(needed, old_data_begin);
  return fail(
      Error(ErrorCode::header_too_large, "metadata_fits_the_padding",
            format_text("header needs {} bytes but the space before the data has {}", needed, old_data_begin))
          .with_hint("leave out --no-grow: the data then moves by a multiple of 4096 bytes"));
}

}  // namespace ht::inline v1
