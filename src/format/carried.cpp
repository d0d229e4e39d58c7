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
    return fail(lost("format_carries_the_encoding", entry,
                     format_text("tensor '{}': {} cannot store {}", entry.name, format, encoding.name))
                    .with_hint("convert to GGUF or IRPA instead"));
  }
  if (!entry.is_typed()) {
    return fail(
        lost("format_carries_untyped_bytes", entry,
             format_text("tensor '{}': dtype and shape are unknown but {} needs both", entry.name, format))
            .with_hint("convert to IRPA instead"));
  }
  if (entry.order != ElementOrder::row_major && entry.dims.size() > 1) {
    return fail(lost("format_carries_the_order", entry,
                     format_text("tensor '{}': {} cannot store column-major order", entry.name, format))
                    .with_hint("transpose the tensor to row-major order first, or convert to NPY"));
  }
  if (entry.byte_order != ByteOrder::little) {
    return fail(lost("format_carries_the_byte_order", entry,
                     format_text("tensor '{}': {} cannot store big-endian data", entry.name, format))
                    .with_hint("byte-swap the tensor to little-endian first, or convert to GGUF"));
  }
  if (!entry.note.empty()) {
    return fail(lost("format_carries_the_note", entry,
                     format_text("tensor '{}': {} cannot store its note", entry.name, format))
                    .with_hint("convert to IRPA instead"));
  }
  return {};
}

Result<void> check_no_metadata(const Catalog& catalog, std::string_view format) {
  if (catalog.metadata().empty()) return {};
  return fail(Error(ErrorCode::would_lose, "format_carries_metadata",
                    format_text("{} cannot store metadata; the model has {} keys such as '{}'", format,
                                catalog.metadata().size(), catalog.metadata()[0].key))
                  .with_hint("convert to safetensors, GGUF or IRPA instead"));
}

}  // namespace ht::inline v1
