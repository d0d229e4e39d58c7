#include <charconv>
#include <htensor/base/json_text.hpp>

#include "base/format_text.hpp"
#include "format/carried.hpp"
#include "format/safetensors/safetensors.hpp"
#include "format/safetensors/safetensors_dtypes.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

Result<void> append_metadata(std::string& out, const Metadata& metadata) {
  out += R"("__metadata__":{)";
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto [key, value] = metadata[i];
    const auto text = value.text();
    if (!text) {
      return fail(Error(ErrorCode::would_lose, "safetensors_metadata_is_texts",
                        format_text("the metadata '{}' is of type {}, and safetensors has texts alone", key,
                                    to_string(value.type())))
                      .with_hint("leave it out, or choose GGUF"));
    }
    if (i > 0) out += ',';
    append_json_string(out, key);
    out += ':';
    append_json_string(out, *text);
  }
  out += '}';
  return {};
}

Result<void> append_tensor(std::string& out, const Entry& entry, std::uint64_t begin, std::uint64_t end) {
  HT_TRY(check_plain(entry, "safetensors"));
  const auto dtype = find_dtype(entry.dtype);
  if (!dtype || !is_safetensors_dtype(entry.dtype)) {
    return fail(Error(ErrorCode::would_lose, "safetensors_has_the_dtype",
                      format_text("tensor '{}' is {}, which safetensors does not know", entry.name,
                                  dtype ? dtype->name : "of a dtype that is not the library's"))
                    .at_tensor(entry.name)
                    .with_hint("cast it to a wider dtype"));
  }
  append_json_string(out, entry.name);
  out += R"(:{"dtype":")";
  out += dtype->name;
  out += R"(","shape":[)";
  for (std::size_t i = 0; i < entry.dims.size(); ++i) {
    if (i > 0) out += ',';
    append_number(out, static_cast<std::uint64_t>(entry.dims[i]));
  }
  out += R"(],"data_offsets":[)";
  append_number(out, begin);
  out += ',';
  append_number(out, end);
  out += "]}";
  return {};
}

}  // namespace

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
  const auto data_begin = checked::align_up(header.size(), std::max<std::uint64_t>(layout.alignment, 8));
  const auto file_bytes = end && data_begin ? checked::add(*end, *data_begin) : std::nullopt;
  if (!file_bytes) {
    return fail(ErrorCode::size_overflow, "encoded_size_fits_64_bits",
                "the file would have more bytes than 64 bits can count");
  }
  header.resize(static_cast<std::size_t>(*data_begin), ' ');
  const Bytes bytes = bytes_of(header);
  encoded.header.assign(bytes.begin(), bytes.end());
  store_le(MutableBytes(encoded.header), *data_begin - sizeof(std::uint64_t));
  for (auto& offset : encoded.offsets) offset += *data_begin;
  encoded.file_bytes = *file_bytes;
  return encoded;
}

}  // namespace ht::inline v1::format_safetensors
