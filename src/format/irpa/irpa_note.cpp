#include "format/irpa/irpa_note.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>
#include <htensor/dtype/sizes.hpp>
#include <htensor/dtype/visit.hpp>

#include "base/format_text.hpp"
#include "format/common.hpp"
#include "format/gguf/gguf_values.hpp"
#include "format/plain_json.hpp"

namespace ht::inline v1::format_irpa {
namespace {

constexpr std::string_view prefix = "TENSORv0:";
constexpr std::string_view older_prefix = "PYTORCH:";
constexpr std::string_view metadata_prefix = "METADATAv0:";
constexpr std::string_view torch_module = "torch.";
constexpr std::string_view byte_dtype = "uint8";

struct NamedDType {
  std::string_view name;
  DTypeTag tag;
  int bits;
};

template <IsDType D>
constexpr NamedDType named(std::string_view name) {
  return {name, D::tag, D::bits};
}

// As NumPy and ml_dtypes call them.
constexpr std::array dtype_names{
    named<Bool>("bool"),
    named<I4>("int4"),
    named<U4>("uint4"),
    named<I8>("int8"),
    named<U8>("uint8"),
    named<I16>("int16"),
    named<U16>("uint16"),
    named<I32>("int32"),
    named<U32>("uint32"),
    named<I64>("int64"),
    named<U64>("uint64"),
    named<F16>("float16"),
    named<BF16>("bfloat16"),
    named<F32>("float32"),
    named<F64>("float64"),
    named<C64>("complex64"),
    named<F4>("float4_e2m1fn"),
    named<F6_E2M3>("float6_e2m3fn"),
    named<F6_E3M2>("float6_e3m2fn"),
    named<F8_E4M3>("float8_e4m3fn"),
    named<F8_E5M2>("float8_e5m2"),
    named<F8_E8M0>("float8_e8m0fnu"),
    named<F8_E4M3FNUZ>("float8_e4m3fnuz"),
    named<F8_E5M2FNUZ>("float8_e5m2fnuz"),
};
static_assert(dtype_names.size() == AllDTypes::size);

const NamedDType* find_named(std::string_view name) {
  if (name.starts_with(torch_module)) name.remove_prefix(torch_module.size());
  const auto* const found = std::ranges::find(dtype_names, name, &NamedDType::name);
  return found == dtype_names.end() ? nullptr : found;
}

struct Dims {
  std::array<std::int64_t, max_rank> values{};
  std::size_t rank = 0;

  [[nodiscard]] std::span<const std::int64_t> span() const { return std::span(values).first(rank); }
};

// The reason does not matter: the metadata is then kept word for word.
struct Unread {};
using Failed = std::optional<Unread>;

// Reads the members that count, each of them once, and checks all others.
class DescriptionReader {
 public:
  DescriptionReader(std::string_view text, json::Scratch& scratch) : document_(bytes_of(text), scratch) {}

  Failed read() {
    return document_.each<Unread>(
        [this](std::string_view key, json::Value& value) { return member(key, value); }, unread);
  }

  // Views of the document.
  std::optional<std::string_view> type, dtype, encoding;
  std::optional<Dims> shape, logical_shape;

 private:
  static Unread unread(const json::Problem& /*problem*/) { return {}; }

  Failed member(std::string_view key, json::Value& value) {
    if (key == "type") return text(value, type);
    if (key == "dtype") return text(value, dtype);
    if (key == "shape") return dims(value, shape);
    if (key == "encoding") return text(value, encoding);
    if (key == "logical_shape") return dims(value, logical_shape);
    if (document_.check(value)) return Unread{};
    return std::nullopt;
  }

  Failed text(json::Value& value, std::optional<std::string_view>& into) {
    const auto found = document_.text(value);
    if (!found || into) return Unread{};
    into = *found;
    return std::nullopt;
  }

  Failed dims(json::Value& value, std::optional<Dims>& into) {
    if (into) return Unread{};
    into.emplace();
    return document_.each_element<Unread>(
        value,
        [&](json::Value& element) -> Failed {
          const auto number = document_.natural(element);
          const auto dim = number ? checked::narrow<std::int64_t>(*number) : std::nullopt;
          if (!dim || into->rank == max_rank) return Unread{};
          into->values[into->rank++] = *dim;
          return std::nullopt;
        },
        unread);
  }

  json::Document document_;
};

Description description(DTypeTag dtype, EncodingTag encoding, const Dims& dims, bool is_canonical) {
  return {.dtype = dtype,
          .encoding = encoding,
          .dims = dims.values,
          .rank = dims.rank,
          .is_canonical = is_canonical};
}

// The texts that `describe` puts around names and dims, and the only ones that CanonicalReader reads. The
// quote behind a name is not among them.
constexpr std::string_view before_dtype = R"(TENSORv0:{"type": "Tensor", "dtype": ")";
constexpr std::string_view before_shape = R"(, "shape": [)";
constexpr std::string_view before_encoding = R"(], "encoding": ")";
constexpr std::string_view before_logical_shape = R"(, "logical_shape": [)";
constexpr std::string_view behind_shape = "]}";
constexpr std::string_view between_dims = ", ";

// Reads the text that `describe` writes, without a JSON parser. Any other text, and that of another number of
// bytes, is left to DescriptionReader.
class CanonicalReader {
 public:
  explicit CanonicalReader(std::string_view text) : text_(text) {}

  std::optional<Description> read(std::uint64_t bytes) {
    if (!text_.take(before_dtype)) return std::nullopt;
    const auto dtype = text_.string();
    if (!dtype || !text_.take(before_shape)) return std::nullopt;
    const auto shape = dims();
    if (!shape) return std::nullopt;
    if (text_.take(before_encoding)) return read_blocks(*dtype, *shape, bytes);
    const auto* const named = std::ranges::find(dtype_names, *dtype, &NamedDType::name);
    if (!ends() || named == dtype_names.end()) return std::nullopt;
    if (dense_bytes(shape->span(), named->bits) != bytes) return std::nullopt;
    return description(named->tag, EncodingTag::dense, *shape, true);
  }

 private:
  std::optional<Description> read_blocks(std::string_view dtype, const Dims& shape, std::uint64_t bytes) {
    const auto name = text_.string();
    const auto encoding = name ? find_encoding(*name) : std::nullopt;
    if (!encoding || encoding->name != *name || !text_.take(before_logical_shape)) return std::nullopt;
    const auto logical = dims();
    if (!logical || !ends() || dtype != byte_dtype) return std::nullopt;
    if (shape.rank != 1 || std::cmp_not_equal(shape.values[0], bytes)) return std::nullopt;
    if (block_bytes(logical->span(), *encoding) != bytes) return std::nullopt;
    return description(DTypeTag::invalid, encoding->tag, *logical, true);
  }

  // Up to the bracket, which is left.
  std::optional<Dims> dims() {
    Dims read;
    auto dim = text_.natural();
    if (!dim) return read;
    while (read.rank < max_rank) {
      const auto narrow = dim ? checked::narrow<std::int64_t>(*dim) : std::nullopt;
      if (!narrow) return std::nullopt;
      read.values[read.rank++] = *narrow;
      if (!text_.take(between_dims)) return read;
      dim = text_.natural();
    }
    return std::nullopt;
  }

  bool ends() { return text_.take(behind_shape) && text_.done(); }

  json::PlainReader text_;
};

// The JSON behind one of the prefixes.
std::optional<std::string_view> json_of(std::string_view metadata) {
  for (const auto each : {prefix, older_prefix}) {
    if (metadata.starts_with(each)) return metadata.substr(each.size());
  }
  return std::nullopt;
}

}  // namespace

std::optional<Description> read_description(std::string_view metadata, std::uint64_t bytes,
                                            json::Scratch& scratch) {
  if (metadata.size() > max_description_bytes) return std::nullopt;
  if (auto canonical = CanonicalReader(metadata).read(bytes)) return canonical;
  return read_json_description(metadata, bytes, scratch);
}

std::optional<Description> read_json_description(std::string_view metadata, std::uint64_t bytes,
                                                 json::Scratch& scratch) {
  const auto text = json_of(metadata);
  if (!text || metadata.size() > max_description_bytes) return std::nullopt;
  DescriptionReader reader(*text, scratch);
  if (reader.read() || reader.type != "Tensor" || !reader.dtype || !reader.shape) return std::nullopt;
  const auto* const dtype = find_named(*reader.dtype);
  if (dtype == nullptr || dense_bytes(reader.shape->span(), dtype->bits) != bytes) return std::nullopt;
  if (!reader.encoding) return description(dtype->tag, EncodingTag::dense, *reader.shape, false);
  const auto encoding = find_encoding(*reader.encoding);
  if (!encoding || !reader.logical_shape) return std::nullopt;
  if (block_bytes(reader.logical_shape->span(), *encoding) != bytes) return std::nullopt;
  return description(DTypeTag::invalid, encoding->tag, *reader.logical_shape, false);
}

std::optional<std::string> describe(const Entry& entry) {
  if (entry.dims.size() > max_rank) return std::nullopt;
  if (const auto encoding = find_encoding(entry.encoding)) {
    if (block_bytes(entry.dims, *encoding) != entry.bytes) return std::nullopt;
    return fmt::format("{}{}\"{}{}{}{}\"{}{}{}", before_dtype, byte_dtype, before_shape, entry.bytes,
                       before_encoding, encoding->name, before_logical_shape,
                       fmt::join(entry.dims, between_dims), behind_shape);
  }
  const auto* const dtype = std::ranges::find(dtype_names, entry.dtype, &NamedDType::tag);
  if (dtype == dtype_names.end() || dense_bytes(entry.dims, dtype->bits) != entry.bytes) return std::nullopt;
  return fmt::format("{}{}\"{}{}{}", before_dtype, dtype->name, before_shape,
                     fmt::join(entry.dims, between_dims), behind_shape);
}

Result<std::string> metadata_text(const Metadata& metadata) {
  format_gguf::Writer out(ByteOrder::little);
  out.raw(bytes_of(metadata_prefix));
  out.number(static_cast<std::uint64_t>(metadata.size()));
  for (const auto& item : metadata) {
    if (const auto fault = format_gguf::pair_fault(item); !fault.empty()) {
      return fail(
          Error(ErrorCode::would_lose, "irpa_can_hold_the_value",
                format_text("metadata key '{}' cannot be stored in IRPA: {}", to_utf8(item.key), fault))
              .with_hint("remove the key from the source with `htensor meta SRC rm KEY`"));
    }
    out.text(item.key);
    out.value(item.value);
  }
  return std::string(reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size());
}

Result<void> read_metadata_text(std::string_view text, std::uint64_t offset, Metadata& metadata) {
  const auto malformed = [&](std::string_view why) {
    return fail(broken(ErrorCode::bad_header, "irpa_metadata_is_well_formed",
                       format_text("entry '{}': {}", metadata_name, why), offset));
  };
  if (!text.starts_with(metadata_prefix)) return malformed("text does not start with 'METADATAv0:'");
  const Bytes bytes = bytes_of(text.substr(metadata_prefix.size()));
  format_gguf::Reader reader(bytes, bytes.size(), UINT64_MAX);
  const auto count = reader.number<std::uint64_t>("value count");
  if (!count || !reader.has_room_for(*count, format_gguf::least_pair_bytes, "values"))
    return malformed("text ends before its last value");
  const auto pairs = format_gguf::read_pairs(reader, *count);
  if (!pairs) return malformed("a value is truncated or of an unknown type");
  if (reader.at() != bytes.size()) return malformed("bytes follow the last value");
  for (const auto& [key, value] : *pairs) HT_TRY(metadata.add(key, value));
  return {};
}

}  // namespace ht::inline v1::format_irpa
