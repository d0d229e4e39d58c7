#include <algorithm>
#include <array>
#include <htensor/base/utf8.hpp>
#include <htensor/dtype/sizes.hpp>

#include "base/format_text.hpp"
#include "format/common.hpp"
#include "format/safetensors/safetensors.hpp"
#include "format/safetensors/safetensors_header.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

constexpr std::string_view rename_tensor = "rename the tensor with --rename OLD=NEW";

// The reference crate writes tensors by their dtypes, the last of these first, and then by their names:
// those that need the largest alignment go first.
constexpr std::array canonical_dtypes{
    Bool::tag,    F4::tag,      F6_E2M3::tag, F6_E3M2::tag,     U8::tag,          I8::tag,
    F8_E5M2::tag, F8_E4M3::tag, F8_E8M0::tag, F8_E4M3FNUZ::tag, F8_E5M2FNUZ::tag, I16::tag,
    U16::tag,     F16::tag,     BF16::tag,    I32::tag,         U32::tag,         F32::tag,
    C64::tag,     F64::tag,     I64::tag,     U64::tag};

// The place of a dtype among these; -1 for one that is not there.
constexpr int canonical_rank(DTypeTag tag) noexcept {
  const auto found = std::ranges::find(canonical_dtypes, tag);
  return found == canonical_dtypes.end() ? -1 : static_cast<int>(found - canonical_dtypes.begin());
}

Error no_utf8(std::string_view what, std::string_view name, std::string_view hint) {
  return Error(ErrorCode::would_lose, "safetensors_texts_are_utf8",
               format_text("{} '{}' is not valid UTF-8, as safetensors requires", what, to_utf8(name)))
      .with_hint(hint);
}

Result<void> append_tensor(std::string& out, const Entry& entry, std::uint64_t begin, std::uint64_t end) {
  HT_TRY(check_plain(entry, "safetensors"));
  const auto dtype = find_dtype(entry.dtype);
  if (!dtype || !is_safetensors_dtype(entry.dtype)) {
    return fail(lost("safetensors_has_the_dtype", entry,
                     format_text("tensor '{}': safetensors cannot store {}", entry.name,
                                 dtype ? dtype->name : "a user-defined dtype"),
                     "convert to IRPA or ht instead"));
  }
  if (!is_utf8(entry.name))
    return fail(no_utf8("tensor name", entry.name, rename_tensor).at_tensor(entry.name));
  if (entry.name == metadata_key) {
    return fail(lost("safetensors_keeps_a_name_for_metadata", entry,
                     "tensor name '__metadata__' is reserved in safetensors", rename_tensor));
  }
  if (entry.dims.size() > max_rank) {
    return fail(
        lost("safetensors_carries_at_most_64_dims", entry,
             format_text("tensor '{}' has {} dimensions, and a safetensors file is read with at most {}",
                         entry.name, entry.dims.size(), max_rank),
             "reshape the tensor to fewer dimensions"));
  }
  const auto bytes = dense_bytes(entry.dims, dtype->bits);
  if (bytes != entry.bytes) {
    return fail(Error(ErrorCode::size_mismatch, "data_bytes_follow_from_the_shape",
                      format_text("tensor '{}', {} [{}]: data of {} bytes does not match the shape",
                                  entry.name, dtype->name, fmt::join(entry.dims, ", "), entry.bytes))
                    .at_tensor(entry.name)
                    .with_hint("pass the dtype and shape of the data"));
  }
  if (!fills_whole_bytes(entry.dims, dtype->bits)) {
    return fail(
        lost("safetensors_has_whole_bytes", entry,
             format_text("tensor '{}', {} [{}]: size is not a whole number of bytes, as safetensors requires",
                         entry.name, dtype->name, fmt::join(entry.dims, ", ")),
             "convert to IRPA or ht instead"));
  }
  append_json_string(out, entry.name);
  out += R"(:{"dtype":")";
  out += dtype->name;
  out += R"(","shape":[)";
  for (std::size_t i = 0; i < entry.dims.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(entry.dims[i]);
  }
  out += R"(],"data_offsets":[)";
  out += std::to_string(begin);
  out += ',';
  out += std::to_string(end);
  out += "]}";
  return {};
}

std::optional<std::uint64_t> begin_of_data(const Catalog& catalog, std::uint64_t header_end,
                                           const Layout& layout) {
  if (layout.block_bytes == 0)
    return checked::align_up(header_end, std::max<std::uint64_t>(layout.alignment, 8));
  for (const Entry& first : catalog) {
    if (first.bytes == 0 || first.is_splat()) continue;
    // Blocks are powers of two, so that numbers below 0 leave the right rest as well.
    return checked::add(header_end, (first.offset - header_end) % layout.block_bytes);
  }
  return checked::align_up(header_end, 8);
}

}  // namespace

bool precedes(const Entry& a, const Entry& b) {
  const int rank_a = canonical_rank(a.dtype);
  const int rank_b = canonical_rank(b.dtype);
  return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
}

Result<void> append_metadata(std::string& out, const Metadata& metadata) {
  out += R"("__metadata__":{)";
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto [key, value] = metadata[i];
    const auto text = value.text();
    if (!is_utf8(key) || (text && !is_utf8(*text)))
      return fail(no_utf8("metadata key or value", key, "convert to GGUF or IRPA instead"));
    if (!text) {
      return fail(Error(ErrorCode::would_lose, "safetensors_metadata_is_texts",
                        format_text("metadata key '{}' has type {} but safetensors stores only strings", key,
                                    to_string(value.type())))
                      .with_hint("convert to GGUF or IRPA instead"));
    }
    if (i > 0) out += ',';
    append_json_string(out, key);
    out += ':';
    append_json_string(out, *text);
  }
  out += '}';
  return {};
}

Result<Encoded> encode(const Catalog& catalog, const Layout& layout) {
  Encoded encoded;
  encoded.offsets.reserve(catalog.size());
  // The length comes before the JSON and is put there when that is known.
  std::string header(sizeof(std::uint64_t), '\0');
  header += '{';
  if (!catalog.metadata().empty()) {
    HT_TRY(append_metadata(header, catalog.metadata()));
    if (!catalog.empty()) header += ',';
  }
  std::optional<std::uint64_t> end = 0;
  for (std::size_t i = 0; i < catalog.size(); ++i) {
    const Entry entry = catalog[i];
    const std::uint64_t begin = *end;
    end = checked::add(begin, entry.bytes);
    if (!end) break;
    if (i > 0) header += ',';
    HT_TRY(append_tensor(header, entry, begin, *end));
    encoded.offsets.push_back(begin);
  }
  header += '}';
  const auto data_begin = begin_of_data(catalog, header.size(), layout);
  const auto file_bytes = end && data_begin ? checked::add(*end, *data_begin) : std::nullopt;
  if (!file_bytes) return fail(file_too_large());
  if (*data_begin - sizeof(std::uint64_t) > default_max_header_bytes) {
    return fail(Error(ErrorCode::header_too_large, "safetensors_header_can_be_read",
                      format_text("header would have {} bytes but readers accept at most {}", *data_begin,
                                  default_max_header_bytes))
                    .with_hint("use --shard-size, or a smaller --align"));
  }
  header.resize(static_cast<std::size_t>(*data_begin), ' ');
  const Bytes bytes = bytes_of(header);
  encoded.header.assign(bytes.begin(), bytes.end());
  store_le(MutableBytes(encoded.header), *data_begin - sizeof(std::uint64_t));
  for (auto& offset : encoded.offsets) *offset += *data_begin;
  encoded.file_bytes = *file_bytes;
  return encoded;
}

}  // namespace ht::inline v1::format_safetensors
