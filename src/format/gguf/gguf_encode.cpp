#include <algorithm>
#include <array>
#include <htensor/format/metadata.hpp>
#include <ranges>

#include "base/utf8.hpp"
#include "format/gguf/gguf_wire.hpp"

namespace ht::inline v1::format_gguf {
namespace {

constexpr std::uint32_t written_version = 3;

Result<void> check_entry(const Entry& entry, ByteOrder order) {
  if (entry.byte_order != order) {
    return fail(would_lose_error(
        "gguf_has_one_byte_order", entry, "byte-swap the tensors to one byte order first",
        "tensor '{}': data is {}-endian but other tensors are not, and a GGUF file has one byte "
        "order",
        entry.name, entry.byte_order == ByteOrder::big ? "big" : "little"));
  }
  // GGUF allows blocks and big-endian data, which `check_plain` refuses. The other limits of `check_plain`
  // apply.
  Entry plain = entry;
  plain.byte_order = ByteOrder::little;
  if (plain.encoding != EncodingTag::dense) plain.dtype = F32::tag;
  plain.encoding = EncodingTag::dense;
  HT_TRY(check_plain(plain, "GGUF"));
  if (entry.dims.size() > max_rank) {
    return fail(would_lose_error(
        "gguf_carries_at_most_4_dimensions", entry, "convert to safetensors or IRPA instead",
        "tensor '{}': rank {} exceeds GGUF's limit of {}", entry.name, entry.dims.size(), max_rank));
  }
  if (!is_utf8(entry.name)) {
    return fail(Error(ErrorCode::bad_utf8, "gguf_names_are_utf8",
                      format_text("tensor name '{}' is not valid UTF-8", to_utf8(entry.name)))
                    .with_hint("rename the tensor with --rename OLD=NEW"));
  }
  return {};
}

Result<TensorType> check_type(const Entry& entry) {
  const auto type = type_of(entry);
  if (!type) {
    const auto dtype = find_dtype(entry.dtype).value_or(DTypeInfo{.name = "this dtype"});
    return fail(would_lose_error("gguf_has_the_dtype", entry, "convert to safetensors or IRPA instead",
                                 "tensor '{}': GGUF cannot store {}", entry.name, dtype.name));
  }
  HT_TRY(check_data_size(entry));
  return *type;
}

/// The alignment of the layout, otherwise the one in the metadata.
Result<std::uint64_t> choose_alignment(const Catalog& catalog, const EncodeOptions& layout) {
  std::uint64_t alignment = default_alignment;
  if (const auto stored = catalog.metadata().find(alignment_key)) {
    if (stored->type() != MetaType::u32 || !std::has_single_bit(*stored->unsigned_integer())) {
      return fail(
          Error(ErrorCode::would_lose, "gguf_alignment_key_is_a_u32_power_of_two",
                format_text("metadata key '{}' is not a u32 power of two, as GGUF requires", alignment_key))
              .with_hint("remove the key from the source with `htensor meta SRC rm general.alignment`"));
    }
    alignment = *stored->unsigned_integer();
  }
  if (layout.alignment == 0) return alignment;
  if (!std::has_single_bit(layout.alignment) || !checked::narrow<std::uint32_t>(layout.alignment)) {
    return fail(Error(ErrorCode::misaligned, "gguf_alignment_fits_32_bits",
                      format_text("alignment {} is not a power of two below 2^32", layout.alignment))
                    .with_hint("use 64 or 4096"));
  }
  return layout.alignment;
}

/// Writes the pair; `would_lose` if GGUF cannot store it.
Result<void> write_pair(Writer& out, const Metadata::Item& item) {
  if (const auto fault = pair_fault(item); !fault.empty()) {
    return fail(Error(ErrorCode::would_lose, "gguf_can_store_the_value",
                      format_text("metadata key '{}' cannot be stored in GGUF: {}", to_utf8(item.key), fault))
                    .with_hint("remove the key from the source with `htensor meta SRC rm KEY`"));
  }
  out.pair(item.key, item.value);
  return {};
}

Result<void> write_metadata(const Metadata& metadata, std::uint64_t alignment, Writer& out) {
  std::array<std::byte, sizeof(std::uint32_t)> bytes{};
  store_le(MutableBytes(bytes), static_cast<std::uint32_t>(alignment));
  const MetaValue chosen(MetaType::u32, bytes);
  const bool has_alignment = metadata.find(alignment_key).has_value();
  const bool must_add_alignment = !has_alignment && alignment != default_alignment;
  out.number(static_cast<std::uint64_t>(metadata.size() + (must_add_alignment ? 1 : 0)));
  for (const auto& item : metadata) {
    HT_TRY(write_pair(out, item.key == alignment_key ? Metadata::Item{item.key, chosen} : item));
  }
  if (must_add_alignment) out.pair(alignment_key, chosen);
  return {};
}

Result<void> fail_too_large() {
  return fail(Error(ErrorCode::size_overflow, "encoded_size_fits_63_bits", "file size exceeds 2^63-1 bytes")
                  .with_hint("write fewer or smaller tensors to one file"));
}

/// Writes the table. Offsets are relative to the start of the data.
Result<void> write_tensors(const Catalog& catalog, ByteOrder order, std::uint64_t alignment, Writer& out) {
  DataPlan plan{.alignment = alignment};
  for (const Entry& entry : catalog) {
    HT_TRY(check_entry(entry, order));
    const auto type = HT_TRY(check_type(entry));
    out.text(entry.name);
    out.number(static_cast<std::uint32_t>(entry.dims.size()));
    for (const auto dim : entry.dims | std::views::reverse) out.number(dim);
    out.number(type.id);
    out.number(plan.next);
    if (!plan.place(entry.bytes)) return fail_too_large();
  }
  return {};
}

/// Places the data after the header.
Result<void> place_data(const Catalog& catalog, std::uint64_t alignment, EncodedFile& encoded) {
  DataPlan plan{.begin = *checked::align_up(encoded.header.size(), alignment), .alignment = alignment};
  encoded.offsets.reserve(catalog.size());
  for (const Entry& entry : catalog) {
    encoded.offsets.push_back(plan.next_in_file());
    if (!plan.place(entry.bytes)) return fail_too_large();
  }
  encoded.file_bytes = plan.next_in_file();
  return {};
}

/// Bytes of the padding value without its spaces: key, type, length.
constexpr std::uint64_t pad_overhead = 8 + pad_key.size() + 4 + 8;

/// The parts of a header.
struct OldHeader {
  ByteOrder order = ByteOrder::little;
  Bytes before_values;  // magic, version, number of tensors
  Bytes table;
  std::uint64_t alignment = default_alignment;
  std::uint64_t data_begin = 0;
};

std::optional<OldHeader> read_header(const Format::HeaderEdit& edit) {
  Reader reader(edit.prefix, edit.file_bytes, UINT64_MAX);
  OldHeader old;
  reader.take(magic.size(), "magic");
  const Bytes version = reader.take(sizeof(std::uint32_t), "version");
  if (version.empty()) return std::nullopt;
  old.order = order_of_version(version);
  reader.set_order(old.order);
  const auto tensors = reader.number<std::uint64_t>("tensor count");
  old.before_values = reader.since(0);
  static_cast<void>(read_pairs(reader, reader.number<std::uint64_t>("metadata count")));
  const std::size_t table = reader.at();
  check_and_skip_table(reader, tensors);
  if (!reader.ok()) return std::nullopt;
  old.table = reader.since(table);
  if (const auto stored = edit.catalog.metadata().find(alignment_key)) {
    old.alignment = stored->unsigned_integer().value_or(default_alignment);
  }
  const auto begin = checked::align_up(reader.at(), old.alignment);
  if (!begin) return std::nullopt;
  // A file without tensors may end before the aligned start of the data.
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
    if (!describes_layout(item) || same(value, other.find(key))) continue;
    return fail(
        Error(ErrorCode::bad_name, "edits_keep_the_layout",
              format_text("metadata key '{}' describes the file's layout and cannot be edited", to_utf8(key)))
            .with_hint("convert the model with --align or --shard-size"));
  }
  return {};
}

/// The header up to its tensor table. If `pad` is set, a padding value of `pad` spaces is the last value.
Result<std::vector<std::byte>> write_values(const OldHeader& old, const Metadata& metadata,
                                            std::optional<std::uint64_t> pad) {
  Writer out(old.order);
  out.raw(old.before_values);
  std::uint64_t count = pad ? 1 : 0;
  for (const auto& item : metadata) count += is_padding(item) ? 0 : 1;
  out.number(count);
  for (const auto& item : metadata) {
    if (!is_padding(item)) HT_TRY(write_pair(out, item));
  }
  if (pad) {
    out.text(pad_key);
    out.number(static_cast<std::uint32_t>(MetaType::string));
    out.text(std::string(static_cast<std::size_t>(*pad), ' '));
  }
  return std::move(out.bytes());
}

/// The number of padding spaces; nullopt if zeros before the data are enough.
Result<std::optional<std::uint64_t>> choose_pad(std::uint64_t free, const OldHeader& old,
                                                const Metadata& metadata) {
  if (free < old.alignment) return std::nullopt;
  const auto stored = metadata.find(pad_key);
  if (stored && !is_padding({pad_key, *stored})) {
    return fail(Error(ErrorCode::duplicate_key, "padding_key_is_unused",
                      format_text("metadata key '{}' has a value that is not padding, and the header needs "
                                  "padding of {} bytes",
                                  pad_key, free))
                    .with_hint(format_text("remove the key: htensor meta FILE rm {}", pad_key)));
  }
  if (free >= pad_overhead) return free - pad_overhead;
  return fail(
      Error(ErrorCode::misaligned, "header_can_be_padded",
            format_text("the header would end {} bytes before the data, and padding needs at least {}", free,
                        pad_overhead))
          .with_hint("leave out --no-grow: the data then moves by a multiple of 4096 bytes"));
}

}  // namespace

std::vector<Error> warnings(const Catalog& catalog) {
  constexpr std::size_t max_name_bytes = 63;
  constexpr std::string_view architecture_key = "general.architecture";
  std::vector<Error> found;
  std::size_t count = 0;
  std::string_view first;
  for (const Entry& entry : catalog) {
    const auto name = entry.name;
    if (name.size() > max_name_bytes && count++ == 0) first = name;
  }
  if (count != 0) {
    found.push_back(
        Error(ErrorCode::bad_name, "names_fit_ggml",
              format_text(
                  "{} tensor name{} longer than {} bytes, the first is '{}'; llama.cpp refuses the file",
                  count, count == 1 ? " is" : "s are", max_name_bytes, to_utf8(first)))
            .at_tensor(first)
            .with_hint("shorten the names: htensor convert SRC DST --rename A=B"));
  }
  const auto architecture = catalog.metadata().find(architecture_key);
  if (!architecture || !architecture->text()) {
    found.push_back(
        Error(ErrorCode::not_found, "metadata_names_the_architecture",
              format_text("the metadata has no string '{}'; llama.cpp refuses the file", architecture_key))
            .with_hint(format_text("set it: htensor meta FILE set {} NAME", architecture_key)));
  }
  return found;
}

Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout) {
  const auto alignment = HT_TRY(choose_alignment(catalog, layout));
  const ByteOrder order = catalog.empty() ? ByteOrder::little : catalog[0].byte_order;
  Writer out(order);
  out.raw(bytes_of(magic));
  out.number(written_version);
  out.number(static_cast<std::uint64_t>(catalog.size()));
  HT_TRY(write_metadata(catalog.metadata(), alignment, out));
  HT_TRY(write_tensors(catalog, order, alignment, out));
  EncodedFile encoded;
  encoded.header = std::move(out.bytes());
  encoded.file_bytes = encoded.header.size();
  if (catalog.empty()) return encoded;
  HT_TRY(place_data(catalog, alignment, encoded));
  return encoded;
}

std::uint64_t file_end(const Catalog& catalog, std::uint64_t data_end) {
  const auto alignment = catalog.metadata().find(alignment_key);
  const auto multiple = alignment ? alignment->unsigned_integer() : std::nullopt;
  return checked::align_up(data_end, multiple.value_or(default_alignment)).value_or(UINT64_MAX);
}

Result<Format::EditedHeader> edit(const Format::HeaderEdit& edit) {
  const auto old = read_header(edit);
  if (!old) return fail(incomplete_header(edit));
  HT_TRY(check_layout(edit.metadata, edit.catalog.metadata()));
  HT_TRY(check_layout(edit.catalog.metadata(), edit.metadata));
  Format::EditedHeader header{.bytes = {}, .replaced_bytes = old->data_begin};
  header.bytes = HT_TRY(write_values(*old, edit.metadata, std::nullopt));
  const std::uint64_t needed = header.bytes.size() + old->table.size();
  auto begin = HT_TRY(data_begin_for(needed, old->data_begin, edit));
  auto pad = choose_pad(begin - needed, *old, edit.metadata);
  if (!pad && edit.grow && begin == old->data_begin) {
    begin = moved_data_begin(needed, old->data_begin);
    pad = choose_pad(begin - needed, *old, edit.metadata);
  }
  if (!pad) return fail(std::move(pad).error());
  if (*pad) header.bytes = HT_TRY(write_values(*old, edit.metadata, *pad));
  header.bytes.insert(header.bytes.end(), old->table.begin(), old->table.end());
  header.bytes.resize(static_cast<std::size_t>(begin));
  return header;
}

}  // namespace ht::inline v1::format_gguf
