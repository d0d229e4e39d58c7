#include <algorithm>
#include <array>
#include <htensor/base/utf8.hpp>
#include <ranges>

#include "base/format_text.hpp"
#include "format/common.hpp"
#include "format/gguf/gguf.hpp"
#include "format/gguf/gguf_tensors.hpp"
#include "format/gguf/gguf_values.hpp"

namespace ht::inline v1::format_gguf {
namespace {

constexpr std::uint32_t written_version = 3;

Result<void> check_entry(const Entry& entry, ByteOrder order) {
  if (entry.byte_order != order) {
    return fail(lost("gguf_has_one_byte_order", entry,
                     format_text("tensor '{}': data is {}-endian but other tensors are not, and a GGUF file "
                                 "has one byte order",
                                 entry.name, entry.byte_order == ByteOrder::big ? "big" : "little"),
                     "byte-swap the tensors to one byte order first"));
  }
  // Blocks and big endian are at home here; all else that GGUF cannot carry is what others cannot either.
  Entry plain = entry;
  plain.byte_order = ByteOrder::little;
  if (plain.encoding != EncodingTag::dense) plain.dtype = F32::tag;
  plain.encoding = EncodingTag::dense;
  HT_TRY(check_plain(plain, "GGUF"));
  if (entry.dims.size() > max_rank) {
    return fail(lost("gguf_carries_at_most_4_dimensions", entry,
                     format_text("tensor '{}': rank {} exceeds GGUF's limit of {}", entry.name,
                                 entry.dims.size(), max_rank),
                     "convert to safetensors or IRPA instead"));
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
    return fail(lost("gguf_has_a_type_for_it", entry,
                     format_text("tensor '{}': GGUF cannot store {}", entry.name, dtype.name),
                     "convert to safetensors or IRPA instead"));
  }
  if (block_bytes(entry.dims, type->encoding) != entry.bytes) {
    return fail(Error(ErrorCode::size_mismatch, "data_bytes_follow_from_the_shape",
                      format_text("tensor '{}': data of {} bytes does not match {} [{}]", entry.name,
                                  entry.bytes, type->encoding.name, fmt::join(entry.dims, ", ")))
                    .at_tensor(entry.name));
  }
  return *type;
}

/// What the layout asks for, else what the metadata says.
Result<std::uint64_t> choose_alignment(const Catalog& catalog, const Layout& layout) {
  std::uint64_t alignment = default_alignment;
  if (const auto stored = catalog.metadata().find(alignment_key)) {
    if (stored->type() != MetaType::u32 || !std::has_single_bit(*stored->natural())) {
      return fail(
          Error(ErrorCode::would_lose, "gguf_alignment_is_free_to_be_set",
                format_text("metadata key '{}' is not a u32 power of two, as GGUF requires", alignment_key))
              .with_hint("remove the key from the source with `htensor meta SRC rm general.alignment`"));
    }
    alignment = *stored->natural();
  }
  if (layout.alignment == 0) return alignment;
  if (!std::has_single_bit(layout.alignment) || !checked::narrow<std::uint32_t>(layout.alignment)) {
    return fail(ErrorCode::misaligned, "gguf_alignment_fits_32_bits",
                format_text("alignment {} is not a power of two below 2^32", layout.alignment));
  }
  return layout.alignment;
}

Result<void> write_metadata(const Metadata& metadata, std::uint64_t alignment, Writer& out) {
  std::array<std::byte, sizeof(std::uint32_t)> bytes{};
  store_le(MutableBytes(bytes), static_cast<std::uint32_t>(alignment));
  const MetaValue chosen(MetaType::u32, bytes);
  const bool is_said = metadata.find(alignment_key).has_value();
  const bool has_to_be_said = !is_said && alignment != default_alignment;
  out.number(static_cast<std::uint64_t>(metadata.size() + (has_to_be_said ? 1 : 0)));
  for (const auto& item : metadata) {
    HT_TRY(check_pair(item));
    out.text(item.key);
    out.value(item.key == alignment_key ? chosen : item.value);
  }
  if (has_to_be_said) {
    out.text(alignment_key);
    out.value(chosen);
  }
  return {};
}

Result<void> overflows() {
  return fail(ErrorCode::size_overflow, "encoded_size_fits_64_bits", "file size exceeds 2^63-1 bytes");
}

/// Writes the table, in which offsets count from the beginning of the data.
Result<void> write_tensors(const Catalog& catalog, ByteOrder order, std::uint64_t alignment, Writer& out) {
  DataPlan plan(0, alignment);
  for (const Entry& entry : catalog) {
    HT_TRY(check_entry(entry, order));
    const auto type = HT_TRY(check_type(entry));
    out.text(entry.name);
    out.number(static_cast<std::uint32_t>(entry.dims.size()));
    for (const auto dim : entry.dims | std::views::reverse) out.number(dim);
    out.number(type.id);
    out.number(plan.next());
    if (!plan.place(entry.bytes)) return overflows();
  }
  return {};
}

/// Where data goes behind a header of that length.
Result<void> place_data(const Catalog& catalog, std::uint64_t alignment, Encoded& encoded) {
  DataPlan plan(*checked::align_up(encoded.header.size(), alignment), alignment);
  encoded.offsets.reserve(catalog.size());
  for (const Entry& entry : catalog) {
    encoded.offsets.push_back(plan.next_in_file());
    if (!plan.place(entry.bytes)) return overflows();
  }
  encoded.file_bytes = plan.next_in_file();
  return {};
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

Result<Encoded> encode(const Catalog& catalog, const Layout& layout) {
  const auto alignment = HT_TRY(choose_alignment(catalog, layout));
  const ByteOrder order = catalog.empty() ? ByteOrder::little : catalog[0].byte_order;
  Writer out(order);
  out.raw(bytes_of(magic));
  out.number(written_version);
  out.number(static_cast<std::uint64_t>(catalog.size()));
  HT_TRY(write_metadata(catalog.metadata(), alignment, out));
  HT_TRY(write_tensors(catalog, order, alignment, out));
  Encoded encoded;
  encoded.header = std::move(out.bytes());
  encoded.file_bytes = encoded.header.size();
  if (catalog.empty()) return encoded;
  HT_TRY(place_data(catalog, alignment, encoded));
  return encoded;
}

}  // namespace ht::inline v1::format_gguf
