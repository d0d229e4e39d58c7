#include <algorithm>
#include <array>
#include <htensor/dtype/packed.hpp>

#include "base/utf8.hpp"
#include "format/format_errors.hpp"
#include "format/json/json.hpp"
#include "format/safetensors/safetensors.hpp"
#include "format/safetensors/safetensors_header.hpp"

namespace ht::inline v1::format_safetensors {
namespace {

constexpr std::string_view rename_hint = "rename the tensor with --rename OLD=NEW";

// The reference crate sorts tensors by dtype, then by name. The dtypes that come last in this list are first
// in a file, so that the tensors with the largest alignment are first.
constexpr std::array canonical_dtypes{
    Bool::tag,    F4::tag,      F6_E2M3::tag, F6_E3M2::tag,     U8::tag,          I8::tag,
    F8_E5M2::tag, F8_E4M3::tag, F8_E8M0::tag, F8_E4M3FNUZ::tag, F8_E5M2FNUZ::tag, I16::tag,
    U16::tag,     F16::tag,     BF16::tag,    I32::tag,         U32::tag,         F32::tag,
    C64::tag,     F64::tag,     I64::tag,     U64::tag};

// The position of a dtype in the list; -1 if the list does not contain the dtype.
constexpr int canonical_rank(DTypeTag tag) noexcept {
  const auto found = std::ranges::find(canonical_dtypes, tag);
  return found == canonical_dtypes.end() ? -1 : static_cast<int>(found - canonical_dtypes.begin());
}

Error invalid_utf8(std::string_view subject, std::string_view name, std::string_view hint) {
  return Error(ErrorCode::would_lose, "safetensors_strings_are_utf8",
               format_text("{} '{}' is not valid UTF-8, as safetensors requires", subject, to_utf8(name)))
      .with_hint(hint);
}

Result<void> append_tensor(std::string& out, const Entry& entry, std::uint64_t begin, std::uint64_t end) {
  HT_TRY(check_plain(entry, "safetensors"));
  const auto dtype = find_dtype(entry.dtype);
  if (!dtype || !is_safetensors_dtype(entry.dtype)) {
    return fail(would_lose_error("safetensors_has_the_dtype", entry, "convert to IRPA or ht instead",
                                 "tensor '{}': safetensors cannot store {}", entry.name,
                                 dtype ? dtype->name : "a user-defined dtype"));
  }
  if (!is_utf8(entry.name))
    return fail(invalid_utf8("tensor name", entry.name, rename_hint).at_tensor(entry.name));
  if (entry.name == metadata_key) {
    return fail(would_lose_error("safetensors_name_is_not_reserved", entry, rename_hint,
                                 "tensor name '__metadata__' is reserved in safetensors"));
  }
  if (entry.dims.size() > max_rank) {
    return fail(would_lose_error("safetensors_carries_at_most_64_dims", entry,
                                 "reshape the tensor to fewer dimensions",
                                 "tensor '{}': rank {} exceeds the limit of {} for safetensors", entry.name,
                                 entry.dims.size(), max_rank));
  }
  HT_TRY(check_data_size(entry));
  if (!fills_whole_bytes(entry.dims, dtype->bits)) {
    return fail(
        would_lose_error("safetensors_has_whole_bytes", entry, "convert to IRPA or ht instead",
                         "tensor '{}', {} [{}]: size is not a whole number of bytes, as safetensors requires",
                         entry.name, dtype->name, fmt::join(entry.dims, ", ")));
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

// Appends `"__metadata__":{…}`. `would_lose` for values that are not strings.
Result<void> append_metadata(std::string& out, const Metadata& metadata) {
  out += R"("__metadata__":{)";
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    const auto [key, value] = metadata[i];
    const auto text = value.text();
    if (!is_utf8(key) || (text && !is_utf8(*text)))
      return fail(invalid_utf8("metadata key or value", key, "convert to GGUF or IRPA instead"));
    if (!text) {
      return fail(Error(ErrorCode::would_lose, "safetensors_metadata_values_are_strings",
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

std::optional<std::uint64_t> begin_of_data(const Catalog& catalog, std::uint64_t header_end,
                                           const EncodeOptions& layout) {
  if (layout.disk_block_bytes == 0)
    return checked::align_up(header_end, std::max<std::uint64_t>(layout.alignment, 8));
  for (const Entry& first : catalog) {
    if (first.bytes == 0 || first.is_splat()) continue;
    // The disk block size is a power of two, so the unsigned remainder of a negative difference is correct.
    return checked::add(header_end, (first.offset - header_end) % layout.disk_block_bytes);
  }
  return checked::align_up(header_end, 8);
}

Result<void> check_header_bytes(std::uint64_t header_bytes, std::string_view hint) {
  if (header_bytes <= default_max_header_bytes) return {};
  return fail(Error(ErrorCode::header_too_large, "safetensors_header_can_be_read",
                    format_text("header would have {} bytes but readers accept at most {}", header_bytes,
                                default_max_header_bytes))
                  .with_hint(hint));
}

struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Scans a text that is known to be JSON. For any other text it stays within bounds.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  /// Skips white space and returns the next character without skipping it; NUL at the end.
  char peek() noexcept {
    at_ = std::min(text_.find_first_not_of(json::white_space, at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void skip() noexcept { at_ = std::min(at_ + 1, text_.size()); }
  void skip_string() noexcept {
    for (skip(); at_ < text_.size() && text_[at_] != '"'; skip()) {
      if (text_[at_] == '\\') skip();
    }
    skip();
  }
  void skip_value() noexcept {
    std::size_t depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        skip_string();
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == '{' || c == '[' || c == '}' || c == ']' || c == ',' || c == ':') {
        skip();
      } else {
        at_ = std::min(text_.find_first_of(" \t\r\n,:]}", at_), text_.size());
      }
    } while (depth > 0 && at_ < text_.size());
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// `key` includes its quotes and may have escapes.
bool is_metadata_key(std::string_view key) {
  if (key.find('\\') == std::string_view::npos) return key == R"("__metadata__")";
  const std::string object = "{" + std::string(key) + ":0}";
  json::Document document(bytes_of(object));
  return document
      .each<bool>(
          [](std::string_view read, json::Value&) -> std::optional<bool> {
            return read == "__metadata__" ? std::optional(true) : std::nullopt;
          },
          [](const json::Problem&) { return false; })
      .value_or(false);
}

// The metadata member of the object, including its key; nullopt if there is none.
std::optional<TextRange> find_metadata(std::string_view text) {
  JsonScanner scanner(text);
  scanner.peek();
  scanner.skip();
  while (scanner.peek() == '"') {
    const std::size_t begin = scanner.at();
    scanner.skip_string();
    const bool is_metadata_entry = is_metadata_key(text.substr(begin, scanner.at() - begin));
    scanner.peek();
    scanner.skip();
    scanner.skip_value();
    if (is_metadata_entry) return TextRange{begin, scanner.at()};
    if (scanner.peek() != ',') break;
    scanner.skip();
  }
  return std::nullopt;
}

// The member and its adjacent comma.
TextRange with_comma(std::string_view text, const TextRange& member) {
  const auto after = text.find_first_not_of(json::white_space, member.end);
  if (after != std::string_view::npos && text[after] == ',') return {member.begin, after + 1};
  const auto before = text.find_last_not_of(json::white_space, member.begin - 1);
  if (before != std::string_view::npos && text[before] == ',') return {before, member.end};
  return member;
}

// The text with its metadata replaced, without trailing white space.
Result<std::string> with_metadata(std::string_view text, const Metadata& metadata) {
  const auto object = text.find('{');
  const auto found = find_metadata(text);
  TextRange replaced = found.value_or(TextRange{object + 1, object + 1});
  if (found && metadata.empty()) replaced = with_comma(text, *found);
  std::string out(text.substr(0, replaced.begin));
  if (!metadata.empty()) HT_TRY(append_metadata(out, metadata));
  const auto next = text.find_first_not_of(json::white_space, replaced.end);
  if (!found && !metadata.empty() && text[next] != '}') out += ',';
  out += text.substr(replaced.end, text.find_last_not_of(json::white_space) + 1 - replaced.end);
  return out;
}

}  // namespace

bool precedes(const Entry& a, const Entry& b) {
  const int rank_a = canonical_rank(a.dtype);
  const int rank_b = canonical_rank(b.dtype);
  return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
}

Result<EncodedFile> encode(const Catalog& catalog, const EncodeOptions& layout) {
  EncodedFile encoded;
  encoded.offsets.reserve(catalog.size());
  // Room for the length field, which is filled in last.
  std::string header(sizeof(std::uint64_t), '\0');
  header += '{';
  if (!catalog.metadata().empty() || layout.empty_metadata) {
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
  const std::uint64_t header_bytes = *data_begin - sizeof(std::uint64_t);
  HT_TRY(check_header_bytes(header_bytes, "use --shard-size, or a smaller --align"));
  header.resize(static_cast<std::size_t>(*data_begin), ' ');
  const Bytes bytes = bytes_of(header);
  encoded.header.assign(bytes.begin(), bytes.end());
  store_le(MutableBytes(encoded.header), header_bytes);
  for (auto& offset : encoded.offsets) *offset += *data_begin;
  encoded.file_bytes = *file_bytes;
  return encoded;
}

Result<Format::EditedHeader> edit(const Format::HeaderEdit& edit) {
  if (edit.prefix.size() < length_bytes) return fail(incomplete_header(edit));
  const auto length = load_le<std::uint64_t>(edit.prefix);
  const auto old = part(edit.prefix, length_bytes, length);
  if (!old) return fail(incomplete_header(edit));
  const std::string text = HT_TRY(with_metadata(as_text(*old), edit.metadata));
  Format::EditedHeader header{.bytes = {}, .replaced_bytes = length_bytes + length};
  const auto begin = HT_TRY(data_begin_for(length_bytes + text.size(), header.replaced_bytes, edit));
  if (begin > header.replaced_bytes) {
    HT_TRY(check_header_bytes(begin - length_bytes,
                              "set shorter values, or remove keys: htensor meta FILE rm KEY"));
  }
  header.bytes.resize(static_cast<std::size_t>(begin), std::byte{' '});
  store_le(MutableBytes(header.bytes), begin - length_bytes);
  std::ranges::copy(bytes_of(text), header.bytes.begin() + length_bytes);
  return header;
}

}  // namespace ht::inline v1::format_safetensors
