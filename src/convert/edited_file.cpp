#include "convert/edited_file.hpp"

#include <algorithm>
#include <htensor/format/encode.hpp>

#include "base/format_text.hpp"
#include "format/shards/numbered_name.hpp"

namespace ht::inline v1 {
namespace {

// Whether the tensors are the same, all of them `by` bytes later.
bool has_moved_alone(const Catalog& before, const Catalog& after, std::uint64_t by) {
  if (before.size() != after.size()) return false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Entry a = before[i];
    const Entry b = after[i];
    const bool same = a.name == b.name && a.dtype == b.dtype && a.encoding == b.encoding &&
                      std::ranges::equal(a.dims, b.dims) && a.byte_order == b.byte_order &&
                      a.bytes == b.bytes && a.offset + by == b.offset;
    if (!same) return false;
  }
  return true;
}

// The format of a file whose metadata can be edited.
Result<const Format*> check_editable(const Catalog& catalog, std::span<const Format> more) {
  const auto* const format = find_format(catalog.format(), more);
  if (format == nullptr || format->edit == nullptr) {
    const bool has_metadata = format != nullptr && format->metadata != MetadataTypes::none;
    return fail(Error(ErrorCode::unsupported_encoding, "format_has_metadata_to_edit",
                      has_metadata
                          ? format_text("metadata of the format {} cannot be edited in place", format->name)
                          : format_text("the format {} has no metadata", catalog.format()))
                    .with_hint(has_metadata ? "convert to GGUF, edit that file, and convert back"
                                            : "convert to GGUF or safetensors first"));
  }
  if (const auto split = split_info(catalog); split && split->number != 0) {
    return fail(Error(ErrorCode::bad_state, "metadata_is_in_the_first_part",
                      format_text("is part {} of {}, and the metadata of a split model is in part 1",
                                  split->number + 1, split->count))
                    .with_hint("name part 1"));
  }
  return format;
}

}  // namespace

Result<EditedFile> plan_edit(const Catalog& before, Bytes seen, std::uint64_t file_bytes,
                             const MetadataEdits& edits, const ParseOptions& options) {
  const auto* const format = HT_TRY(check_editable(before, options.formats));
  const auto wanted = HT_TRY(edited(before.metadata(), edits.edits));
  auto header = HT_TRY(format->edit({seen, file_bytes, before, wanted, edits.grow}));

  EditedFile planned;
  const std::uint64_t data_bytes = file_bytes - header.old_bytes;
  const std::uint64_t begin = header.bytes.size();
  planned.moved_by = begin - header.old_bytes;
  // Bytes that were not seen are room before the data.
  const std::size_t both = std::min(header.bytes.size(), seen.size());
  planned.changed =
      planned.moved_by != 0 || !std::ranges::equal(Bytes(header.bytes).first(both), seen.first(both));
  planned.file.bytes = begin + data_bytes;
  planned.file.header = std::move(header.bytes);
  if (data_bytes != 0) {
    planned.file.parts.push_back(
        {.offset = begin, .bytes = data_bytes, .from = StoredBytes{0, header.old_bytes}});
  }
  // Whatever was edited, the parser has to find the same tensors.
  const auto parsed = HT_TRY(format->parse(planned.file.header, planned.file.bytes, options));
  const auto* const after = std::get_if<Catalog>(&parsed);
  if (after == nullptr || !has_moved_alone(before, *after, planned.moved_by))
    return fail(Error(ErrorCode::internal));
  planned.metadata = after->metadata();
  return planned;
}

}  // namespace ht::inline v1
