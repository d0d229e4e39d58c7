#include "convert/edited_file.hpp"

#include <algorithm>

#include "base/format_text.hpp"
#include "format/formats.hpp"
#include "format/shards/split_info.hpp"

namespace ht::inline v1 {
namespace {

// What the metadata is not concerned with.
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

// That of a file whose header is all there.
Result<Catalog> catalog_of(Result<Parsed> parsed) {
  if (!parsed) return fail(std::move(parsed).error());
  if (auto* const catalog = std::get_if<Catalog>(&*parsed)) return std::move(*catalog);
  return fail(Error(ErrorCode::internal));
}

}  // namespace

Result<void> check_editable(const Catalog& catalog) {
  const auto format = std::ranges::find(formats(), catalog.format(), &Format::name);
  if (format == formats().end() || format->edit == nullptr) {
    const bool irpa = catalog.format() == "irpa";
    return fail(Error(ErrorCode::unsupported_encoding, "format_has_metadata_to_edit",
                      irpa ? std::string("metadata of an IRPA cannot be edited in place")
                           : format_text("the format {} has no metadata", catalog.format()))
                    .with_hint(irpa ? "convert to GGUF, edit that file, and convert back"
                                    : "convert to GGUF or safetensors first"));
  }
  if (const auto split = split_info(catalog); split && split->number != 0) {
    return fail(Error(ErrorCode::bad_state, "metadata_is_in_the_first_part",
                      format_text("is part {} of {}, and the metadata of a split model is in part 1",
                                  split->number + 1, split->count))
                    .with_hint("name part 1"));
  }
  return {};
}

Result<EditedFile> plan_edit(Bytes seen, std::uint64_t file_bytes, std::span<const MetadataEdit> edits,
                             bool grow, const ParseOptions& options) {
  const auto before = HT_TRY(catalog_of(parse(seen, file_bytes, options)));
  HT_TRY(check_editable(before));
  const auto wanted = HT_TRY(edited(before.metadata(), edits));
  const auto format = std::ranges::find(formats(), before.format(), &Format::name);
  auto header = HT_TRY(format->edit({seen, file_bytes, before, wanted, grow}));

  EditedFile planned;
  const std::uint64_t data_bytes = file_bytes - header.old_bytes;
  const std::uint64_t begin = header.bytes.size();
  planned.moved_by = begin - header.old_bytes;
  // What was not seen is room before the data.
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
  const auto after = HT_TRY(catalog_of(format->parse(planned.file.header, planned.file.bytes, options)));
  if (!has_moved_alone(before, after, planned.moved_by)) return fail(Error(ErrorCode::internal));
  planned.metadata = after.metadata();
  return planned;
}

}  // namespace ht::inline v1
