#include "format/irpa/irpa_metadata.hpp"
#include "base/utf8.hpp"
#include "format/format_errors.hpp"
#include "format/gguf/gguf_wire.hpp"
#include "format/irpa/irpa.hpp"
#include "format/json/plain_json.hpp"

#include <algorithm>
#include <htensor/dtype/packed.hpp>
#include <htensor/dtype/relations.hpp>

namespace ht::inline v1::format_irpa {
namespace {

constexpr std::array<std::string_view, 2> prefixes{"TENSORv0:", "PYTORCH:"};
constexpr std::string_view model_metadata_prefix = "METADATAv0:";
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

// The names used by NumPy and ml_dtypes.
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

// The texts that `describe` writes around names and dims; `read_canonical` accepts no others. The quote after
// a name is not included.
constexpr std::string_view before_dtype = R"(TENSORv0:{"type": "Tensor", "dtype": ")";
constexpr std::string_view before_shape = R"(, "shape": [)";
constexpr std::string_view before_encoding = R"(], "encoding": ")";
constexpr std::string_view before_logical_shape = R"(, "logical_shape": [)";
constexpr std::string_view after_shape = "]}";
constexpr std::string_view between_dims = ", ";

// The members that describe a tensor.
struct Members {
  std::optional<std::string_view> type, dtype, encoding;
  std::optional<Dims> shape, logical_shape;
  bool has_other_members = false;
};

// Returns the description in the members, for a tensor of this many bytes. `used_read_canonical` is true if
// `read_canonical` has read the members, false if the JSON parser has.
std::optional<Description> description_of(const Members& members, std::uint64_t bytes,
                                          bool used_read_canonical) {
  const auto* const dtype = find_named(*members.dtype);
  if (dtype == nullptr || dense_bytes(members.shape->span(), dtype->bits) != bytes) return std::nullopt;
  if (!members.encoding) {
    return Description{.dtype = dtype->tag,
                       .dims = *members.shape,
                       .is_known_canonical = used_read_canonical && *members.dtype == dtype->name};
  }
  const auto encoding = find_encoding(*members.encoding);
  if (!encoding || !members.logical_shape) return std::nullopt;
  if (block_bytes(members.logical_shape->span(), *encoding) != bytes) return std::nullopt;
  return Description{
      .encoding = encoding->tag,
      .dims = *members.logical_shape,
      .is_known_canonical = used_read_canonical && *members.dtype == byte_dtype && members.shape->rank == 1};
}

// Reads each known member once with a JSON parser, and checks the syntax of all others.
class JsonReader {
 public:
  JsonReader(std::string_view text, json::Scratch& scratch) : document_(bytes_of(text), scratch) {}

  // False if the text is not JSON, or a known member has the wrong type or occurs twice.
  bool read() {
    return !document_.each<Unreadable>(
        [this](std::string_view key, json::Value& value) { return member(key, value); }, unreadable);
  }

  // The members, as views of the document.
  Members members;

 private:
  // Carries no reason: metadata that cannot be read is kept verbatim.
  struct Unreadable {};
  using Failure = std::optional<Unreadable>;

  static Unreadable unreadable(const json::Problem& /*problem*/) { return {}; }
  static Failure unreadable_unless(bool is_read) { return is_read ? std::nullopt : Failure(Unreadable{}); }

  Failure member(std::string_view key, json::Value& value) {
    if (key == "type") return text(value, members.type);
    if (key == "dtype") return text(value, members.dtype);
    if (key == "shape") return dims(value, members.shape);
    if (key == "encoding") return text(value, members.encoding);
    if (key == "logical_shape") return dims(value, members.logical_shape);
    // IREE repeats the dtype in `dtype_desc`.
    if (key != "dtype_desc") members.has_other_members = true;
    return unreadable_unless(!document_.check(value));
  }

  Failure text(json::Value& value, std::optional<std::string_view>& into) {
    const auto found = document_.text(value);
    if (!found || into) return Unreadable{};
    into = *found;
    return std::nullopt;
  }

  Failure dims(json::Value& value, std::optional<Dims>& into) {
    if (into) return Unreadable{};
    into.emplace();
    return document_.each_element<Unreadable>(
        value,
        [&](json::Value& element) {
          const auto number = document_.unsigned_integer(element);
          return unreadable_unless(number && into->add(*number));
        },
        unreadable);
  }

  json::Document document_;
};

// Reads the dims; the caller checks that a closing bracket follows. False if no dimension follows
// `between_dims`, if a dimension exceeds 63 bits, or if there are more than `max_rank`.
bool read_canonical_dims(json::PlainReader& text, std::optional<Dims>& into) {
  auto& dims = into.emplace();
  auto dim = text.unsigned_integer();
  if (!dim) return true;
  while (dims.add(dim)) {
    if (!text.take(between_dims)) return true;
    dim = text.unsigned_integer();
  }
  return false;
}

// Reads the text that `describe` writes, without a JSON parser. False for any other text.
bool read_canonical(std::string_view metadata, Members& members) {
  json::PlainReader text(metadata);
  if (!text.take(before_dtype)) return false;
  members.dtype = text.string();
  if (!members.dtype || !text.take(before_shape) || !read_canonical_dims(text, members.shape)) return false;
  if (text.take(before_encoding)) {
    members.encoding = text.string();
    if (!members.encoding || !text.take(before_logical_shape)) return false;
    if (!read_canonical_dims(text, members.logical_shape)) return false;
  }
  return text.take(after_shape) && text.done();
}

}  // namespace

std::optional<Description> read_description(std::string_view metadata, std::uint64_t bytes,
                                            json::Scratch& scratch) {
  if (metadata.size() > max_description_bytes) return std::nullopt;
  if (Members members; read_canonical(metadata, members)) return description_of(members, bytes, true);
  return read_json_description(metadata, bytes, scratch);
}

std::optional<Description> read_json_description(std::string_view metadata, std::uint64_t bytes,
                                                 json::Scratch& scratch) {
  const auto used = std::ranges::find_if(prefixes, [&](auto each) { return metadata.starts_with(each); });
  if (used == prefixes.end() || metadata.size() > max_description_bytes) return std::nullopt;
  JsonReader reader(metadata.substr(used->size()), scratch);
  if (!reader.read()) return std::nullopt;
  const Members& members = reader.members;
  if (members.type != "Tensor" || !members.dtype || !members.shape) return std::nullopt;
  auto description = description_of(members, bytes, false);
  if (description) description->has_other_members = members.has_other_members;
  return description;
}

std::string_view note_beyond_type(const Entry& entry) {
  if (entry.note.empty()) return {};
  json::Scratch scratch;
  const auto description = read_description(entry.note, entry.bytes, scratch);
  return description && !description->has_other_members ? std::string_view() : entry.note;
}

std::optional<std::string> describe(const Entry& entry) {
  if (entry.dims.size() > max_rank) return std::nullopt;
  if (const auto encoding = find_encoding(entry.encoding)) {
    return fmt::format("{}{}\"{}{}{}{}\"{}{}{}", before_dtype, byte_dtype, before_shape, entry.bytes,
                       before_encoding, encoding->name, before_logical_shape,
                       fmt::join(entry.dims, between_dims), after_shape);
  }
  const auto* const dtype = std::ranges::find(dtype_names, entry.dtype, &NamedDType::tag);
  if (dtype == dtype_names.end()) return std::nullopt;
  return fmt::format("{}{}\"{}{}{}", before_dtype, dtype->name, before_shape,
                     fmt::join(entry.dims, between_dims), after_shape);
}

Result<std::string> encode_model_metadata(const Metadata& metadata) {
  format_gguf::Writer out(ByteOrder::little);
  out.raw(bytes_of(model_metadata_prefix));
  out.number(static_cast<std::uint64_t>(metadata.size()));
  for (const auto& item : metadata) {
    if (const auto fault = format_gguf::pair_fault(item); !fault.empty()) {
      return fail(
          Error(ErrorCode::would_lose, "irpa_can_store_the_value",
                format_text("metadata key '{}' cannot be stored in IRPA: {}", to_utf8(item.key), fault))
              .with_hint("remove the key from the source with `htensor meta SRC rm KEY`"));
    }
    out.pair(item.key, item.value);
  }
  return std::string(as_text(out.bytes()));
}

Result<void> decode_model_metadata(std::string_view entry_metadata, std::uint64_t offset,
                                   Metadata& metadata) {
  const auto malformed = [&](std::string_view why) {
    return fail(broken(ErrorCode::bad_header, "irpa_metadata_is_well_formed", {offset}, "entry '{}': {}",
                       metadata_name, why));
  };
  if (!entry_metadata.starts_with(model_metadata_prefix)) {
    return malformed("metadata does not start with 'METADATAv0:'");
  }
  const Bytes bytes = bytes_of(entry_metadata.substr(model_metadata_prefix.size()));
  format_gguf::Reader reader(bytes, bytes.size(), UINT64_MAX);
  const auto count = reader.number<std::uint64_t>("value count");
  reader.check_room_for(count, format_gguf::min_pair_bytes, "values");
  if (!reader.ok()) return malformed("metadata ends before the last value");
  const auto pairs = format_gguf::read_pairs(reader, count);
  if (!reader.ok()) return malformed("a key or a value is invalid or truncated");
  if (reader.at() != bytes.size()) return malformed("bytes follow the last value");
  for (const auto& [key, value] : pairs) HT_TRY(metadata.add(key, value));
  return {};
}

}  // namespace ht::inline v1::format_irpa
