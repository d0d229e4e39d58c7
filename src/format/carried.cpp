#include "format/carried.hpp"

#include "base/format_text.hpp"

namespace ht::inline v1 {
namespace {

Error lost(std::string_view rule, const Entry& entry, std::string message,
           SourceLine where = SourceLine::here()) {
  return Error(ErrorCode::would_lose, rule, std::move(message), where).at_tensor(entry.name);
}

}  // namespace

Result<void> check_plain(const Entry& entry, std::string_view format) {
  if (entry.encoding != EncodingTag::dense) {
    const auto encoding = find_encoding(entry.encoding).value_or(Encoding{.name = "an unknown encoding"});
    return fail(
        lost("format_carries_the_encoding", entry,
             format_text("tensor '{}' is {}, which {} does not know", entry.name, encoding.name, format))
            .with_hint("decode it to a dense dtype, or choose GGUF or IRPA"));
  }
  if (!entry.is_typed()) {
    return fail(
        lost("format_carries_untyped_bytes", entry,
             format_text("tensor '{}' has neither dtype nor shape, and {} needs both", entry.name, format))
            .with_hint("only IRPA carries bytes that nobody has named"));
  }
  if (entry.order != ElementOrder::row_major && entry.dims.size() > 1) {
    return fail(lost("format_carries_the_order", entry,
                     format_text("tensor '{}' is in column-major order, and {} has row-major tensors alone",
                                 entry.name, format))
                    .with_hint("copy it into row-major order first, or choose NPY"));
  }
  if (entry.byte_order != ByteOrder::little) {
    return fail(lost("format_carries_the_byte_order", entry,
                     format_text("tensor '{}' is big endian, and {} is little endian", entry.name, format))
                    .with_hint("copy it first: copies are in the order of this machine"));
  }
  if (!entry.note.empty()) {
    return fail(
        lost("format_carries_the_note", entry,
             format_text("tensor '{}' has a note of its own, which {} has no place for", entry.name, format))
            .with_hint("choose IRPA, or leave the note out"));
  }
  return {};
}

Result<void> check_no_metadata(const Catalog& catalog, std::string_view format) {
  if (catalog.metadata().empty()) return {};
  return fail(Error(ErrorCode::would_lose, "format_carries_metadata",
                    format_text("{} has no place for metadata, and there is '{}'{}", format,
                                catalog.metadata()[0].key, catalog.metadata().size() > 1 ? " and more" : ""))
                  .with_hint("leave the metadata out, or choose safetensors or GGUF"));
}

}  // namespace ht::inline v1
