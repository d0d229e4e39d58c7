#include <algorithm>
#include <array>
#include <bit>
#include <htensor/base/utf8.hpp>
#include <htensor/format/metadata_edit.hpp>
#include <optional>

#include "base/format_text.hpp"
#include "format/common.hpp"
#include "format/gguf/gguf.hpp"
#include "format/gguf/gguf_reader.hpp"
#include "format/gguf/gguf_tensors.hpp"
#include "format/gguf/gguf_values.hpp"

namespace ht::inline v1::format_gguf {
namespace {

/// Of the value that fills a header up, but for its spaces: the key, the type, the length.
constexpr std::uint64_t pad_overhead = 8 + pad_key.size() + 4 + 8;

/// Where the parts of a header lie.
struct OldHeader {
  ByteOrder order = ByteOrder::little;
  Bytes before_values;  // magic, version, number of tensors
  Bytes table;
  std::uint64_t alignment = default_alignment;
  std::uint64_t data_begin = 0;
};

std::optional<OldHeader> read_header(const HeaderEdit& edit) {
  Reader reader(edit.seen, edit.file_bytes, UINT64_MAX);
  OldHeader old;
  if (!reader.take(magic.size(), "magic")) return std::nullopt;
  const auto version = reader.take(sizeof(std::uint32_t), "version");
  if (!version) return std::nullopt;
  old.order = order_of_version(*version);
  reader.set_order(old.order);
  const auto tensors = reader.number<std::uint64_t>("tensor count");
  old.before_values = reader.since(0);
  const auto values = reader.number<std::uint64_t>("metadata count");
  if (!tensors || !values || !read_pairs(reader, *values)) return std::nullopt;
  const auto table = static_cast<std::size_t>(reader.at());
  if (!skip_tensors(reader, *tensors)) return std::nullopt;
  old.table = reader.since(table);
  if (const auto stored = edit.catalog.metadata().find(alignment_key)) {
    old.alignment = stored->natural().value_or(default_alignment);
  }
  const auto begin = checked::align_up(reader.at(), old.alignment);
  if (!begin) return std::nullopt;
  // Without a tensor a file need not go on to where data would begin.
  old.data_begin = std::min(*begin, edit.file_bytes);
  return old;
}

bool same(const std::optional<MetaValue>& a, const std::optional<MetaValue>& b) {
  return a.has_value() == b.has_value() &&
         (!a || (a->type() == b->type() && std::ranges::equal(a->bytes(), b->bytes())));
}

Result<void> check_layout(const Metadata& metadata, const Metadata& other) {
  for (const auto& item : metadata) {
    const auto& [key, value] = item;
    const bool is_layout = key == pad_key || describes_layout(item);
    if (!is_layout || same(value, other.find(key))) continue;
    return fail(
        Error(ErrorCode::bad_name, "edits_leave_the_layout_alone",
              format_text("metadata key '{}' describes the file's layout and cannot be edited", to_utf8(key)))
            .with_hint("convert the model with --align or --shard-size"));
  }
  return {};
}

/// The header up to its table of tensors, with a value of `pad` bytes at the end of the others, or without.
Result<std::vector<std::byte>> write_values(const OldHeader& old, const Metadata& metadata,
                                            std::optional<std::uint64_t> pad) {
  Writer out(old.order);
  out.raw(old.before_values);
  std::uint64_t count = pad ? 1 : 0;
  for (const auto& item : metadata) count += is_padding(item) ? 0 : 1;
  out.number(count);
  for (const auto& item : metadata) {
    if (is_padding(item)) continue;
    HT_TRY(check_pair(item));
    out.text(item.key);
    out.value(item.value);
  }
  if (pad) {
    out.text(pad_key);
    out.number(static_cast<std::uint32_t>(MetaType::string));
    out.number(*pad);
    std::ranges::fill(out.raw(std::vector<std::byte>(static_cast<std::size_t>(*pad))), std::byte{' '});
  }
  return std::move(out.bytes());
}

/// How many spaces fill the header up; none where the zeros before the data do.
Result<std::optional<std::uint64_t>> choose_pad(std::uint64_t free, const OldHeader& old,
                                                const Metadata& metadata) {
  if (free < old.alignment) return std::nullopt;
  const auto taken = metadata.find(pad_key);
  const bool can_be = free >= pad_overhead && (!taken || is_padding({pad_key, *taken}));
  if (can_be) return free - pad_overhead;
  return fail(
      Error(ErrorCode::misaligned, "header_can_be_filled_up",
            format_text("the header would end {} bytes before the data, and padding takes {} at least", free,
                        pad_overhead))
          .with_hint("leave out --no-grow: the data then moves by a multiple of 4096 bytes"));
}

}  // namespace

std::uint64_t file_end(const Catalog& catalog, std::uint64_t data_end) {
  const auto alignment = catalog.metadata().find(alignment_key);
  const auto multiple = alignment ? alignment->natural() : std::nullopt;
  return checked::align_up(data_end, multiple.value_or(default_alignment)).value_or(UINT64_MAX);
}

Result<EditedHeader> edit(const HeaderEdit& edit) {
  const auto old = read_header(edit);
  if (!old) return fail(Error(ErrorCode::internal));
  HT_TRY(check_layout(edit.metadata, edit.catalog.metadata()));
  HT_TRY(check_layout(edit.catalog.metadata(), edit.metadata));
  EditedHeader header{.bytes = {}, .old_bytes = old->data_begin};
  header.bytes = HT_TRY(write_values(*old, edit.metadata, std::nullopt));
  const std::uint64_t needed = header.bytes.size() + old->table.size();
  auto begin = HT_TRY(data_begin_for(needed, old->data_begin, edit));
  auto pad = choose_pad(begin - needed, *old, edit.metadata);
  if (!pad && edit.grow && begin == old->data_begin) {
    begin = later_begin(needed, old->data_begin);
    pad = choose_pad(begin - needed, *old, edit.metadata);
  }
  if (!pad) return fail(std::move(pad).error());
  if (*pad) header.bytes = HT_TRY(write_values(*old, edit.metadata, *pad));
  header.bytes.insert(header.bytes.end(), old->table.begin(), old->table.end());
  header.bytes.resize(static_cast<std::size_t>(begin));
  return header;
}

}  // namespace ht::inline v1::format_gguf
