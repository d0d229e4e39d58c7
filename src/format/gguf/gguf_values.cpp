#include "format/gguf/gguf_values.hpp"

#include <algorithm>
#include <htensor/base/utf8.hpp>

#include "base/format_text.hpp"

namespace ht::inline v1::format_gguf {
namespace {

constexpr std::uint64_t array_header_bytes = sizeof(std::uint32_t) + sizeof(std::uint64_t);

std::optional<MetaType> read_type(Reader& reader) {
  const std::uint64_t begin = reader.at();
  const auto type = reader.number<std::uint32_t>("value type");
  if (!type) return std::nullopt;
  if (*type >= meta_type_count) {
    reader.stop(broken(ErrorCode::bad_header, "gguf_value_types_are_known",
                       format_text("metadata value has unknown type {}; known types are 0 to {}", *type,
                                   meta_type_count - 1),
                       begin));
    return std::nullopt;
  }
  return static_cast<MetaType>(*type);
}

std::uint64_t least_bytes(MetaType type) noexcept {
  if (type == MetaType::string) return least_text_bytes;
  if (type == MetaType::array) return array_header_bytes;
  return fixed_bytes(type);
}

std::optional<std::uint64_t> read_array_count(Reader& reader, MetaType type) {
  const std::uint64_t begin = reader.at();
  const auto count = reader.number<std::uint64_t>("array length");
  if (!count) return std::nullopt;
  if (*count > max_array_elements) {
    reader.stop(
        broken(ErrorCode::bad_header, "gguf_arrays_have_at_most_2_30_elements",
               format_text("metadata array has {} elements but the limit is {}", *count, max_array_elements),
               begin));
    return std::nullopt;
  }
  if (!reader.has_room_for(*count, least_bytes(type), "array elements")) return std::nullopt;
  return count;
}

bool skip_array(Reader& reader, int depth) {  // NOLINT(misc-no-recursion)
  if (depth > max_array_depth) {
    reader.stop(broken(ErrorCode::bad_header, "gguf_arrays_nest_at_most_8_deep",
                       format_text("metadata arrays are nested more than {} levels deep", max_array_depth),
                       reader.at()));
    return false;
  }
  const auto type = read_type(reader);
  if (!type) return false;
  const auto count = read_array_count(reader, *type);
  if (!count) return false;
  if (*type == MetaType::string) return reader.skip_texts(*count, "string in an array");
  if (*type != MetaType::array) {
    return reader.take(*count * fixed_bytes(*type), "array").has_value();
  }
  for (std::uint64_t i = 0; i < *count; ++i) {
    if (!skip_array(reader, depth + 1)) return false;
  }
  return true;
}

std::optional<std::string_view> read_key(Reader& reader) {
  const std::uint64_t begin = reader.at();
  const auto key = reader.text("metadata key");
  if (!key) return std::nullopt;
  if (key->empty()) {
    reader.stop(broken(ErrorCode::bad_header, "gguf_keys_are_not_empty", "metadata key is empty", begin));
    return std::nullopt;
  }
  if (!is_utf8(*key)) {
    reader.stop(broken(ErrorCode::bad_utf8, "gguf_keys_are_utf8", "metadata key is not valid UTF-8", begin));
    return std::nullopt;
  }
  return key;
}

// Reverses a number that is in the order `from`, and returns it.
template <WireNumber T>
T reverse_number(MutableBytes bytes, ByteOrder from) noexcept {
  const T number = load_in<T>(from, bytes);
  std::ranges::reverse(bytes.first(sizeof(T)));
  return number;
}

}  // namespace

bool skip_value(Reader& reader, MetaType type) {
  if (type == MetaType::array) return skip_array(reader, 1);
  if (type == MetaType::string) return reader.text("string").has_value();
  return reader.take(fixed_bytes(type), "value").has_value();
}

std::optional<std::vector<Pair>> read_pairs(Reader& reader, std::uint64_t count) {
  std::vector<Pair> pairs;
  // No more than can be in what is seen, whatever the file says.
  pairs.reserve(
      std::min<std::size_t>(static_cast<std::size_t>(count), reader.seen_left() / least_pair_bytes));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto key = read_key(reader);
    if (!key) return std::nullopt;
    const auto type = read_type(reader);
    if (!type) return std::nullopt;
    const auto begin = static_cast<std::size_t>(reader.at());
    if (!skip_value(reader, *type)) return std::nullopt;
    pairs.push_back({*key, MetaValue(*type, reader.since(begin))});
  }
  return pairs;
}

std::string_view pair_fault(const Metadata::Item& item) {
  if (item.key.empty() || !is_utf8(item.key)) return "the key is empty or not valid UTF-8";
  const Bytes bytes = item.value.bytes();
  Reader reader(bytes, bytes.size(), UINT64_MAX);
  if (!skip_value(reader, item.value.type()) || reader.at() != bytes.size()) {
    return "the value exceeds a limit on its size or nesting";
  }
  return {};
}

Result<void> check_pair(const Metadata::Item& item) {
  const auto fault = pair_fault(item);
  if (fault.empty()) return {};
  return fail(Error(ErrorCode::would_lose, "gguf_can_hold_the_value",
                    format_text("metadata key '{}' cannot be stored in GGUF: {}", to_utf8(item.key), fault))
                  .with_hint("remove the key from the source with `htensor meta SRC rm KEY`"));
}

// NOLINTNEXTLINE(misc-no-recursion)
std::size_t reverse_value(MetaType type, MutableBytes value, ByteOrder from) noexcept {
  if (const auto bytes = fixed_bytes(type); bytes != 0) {
    std::ranges::reverse(value.first(bytes));
    return bytes;
  }
  if (type == MetaType::string) {
    return least_text_bytes + static_cast<std::size_t>(reverse_number<std::uint64_t>(value, from));
  }
  const auto element = static_cast<MetaType>(reverse_number<std::uint32_t>(value, from));
  const auto count = reverse_number<std::uint64_t>(value.subspan(sizeof(std::uint32_t)), from);
  std::size_t at = array_header_bytes;
  for (std::uint64_t i = 0; i < count; ++i) at += reverse_value(element, value.subspan(at), from);
  return at;
}

}  // namespace ht::inline v1::format_gguf
