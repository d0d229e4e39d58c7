#include "format/irpa/irpa_metadata.hpp"

#include <htensor/base/utf8.hpp>

#include "base/format_text.hpp"
#include "format/gguf/gguf_values.hpp"
#include "format/irpa/irpa_wire.hpp"

namespace ht::inline v1::format_irpa {
namespace {

constexpr std::string_view prefix = "METADATAv0:";

template <WireNumber T>
void append_number(std::string& text, T value) {
  std::array<std::byte, sizeof(T)> bytes{};
  store_le(MutableBytes(bytes), value);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace

Result<std::string> metadata_text(const Metadata& metadata) {
  std::string text(prefix);
  append_number(text, static_cast<std::uint64_t>(metadata.size()));
  for (const auto& item : metadata) {
    if (const auto fault = format_gguf::pair_fault(item); !fault.empty()) {
      return fail(
          Error(ErrorCode::would_lose, "irpa_can_hold_the_value",
                format_text("metadata key '{}' cannot be stored in IRPA: {}", to_utf8(item.key), fault))
              .with_hint("remove the key from the source with `htensor meta SRC rm KEY`"));
    }
    append_number(text, static_cast<std::uint64_t>(item.key.size()));
    text += item.key;
    append_number(text, static_cast<std::uint32_t>(item.value.type()));
    const Bytes value = item.value.bytes();
    text.append(reinterpret_cast<const char*>(value.data()), value.size());
  }
  return text;
}

Result<void> read_metadata_text(std::string_view text, std::uint64_t offset, Metadata& metadata) {
  const auto malformed = [&](std::string_view why) {
    return fail(broken(ErrorCode::bad_header, "irpa_metadata_is_well_formed",
                       format_text("entry '{}': {}", metadata_name, why), offset));
  };
  if (!text.starts_with(prefix)) return malformed("text does not start with 'METADATAv0:'");
  const Bytes bytes = bytes_of(text.substr(prefix.size()));
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
