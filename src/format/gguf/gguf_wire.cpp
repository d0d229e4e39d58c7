#include "format/gguf/gguf_wire.hpp"
#include "base/utf8.hpp"

#include <array>

namespace ht::inline v1::format_gguf {
namespace {

// The first request, and the minimum for later ones.
constexpr std::uint64_t first_bytes = std::uint64_t{64} * 1024;

// Estimate of the header bytes per token of a vocabulary; Llama 3 has 57.
constexpr std::uint64_t vocabulary_bytes_per_token = 60;
// Limit for a request that is derived from a count in the header.
constexpr std::uint64_t max_estimate = std::uint64_t{64} << 20;

constexpr std::uint64_t array_header_bytes = sizeof(std::uint32_t) + sizeof(std::uint64_t);

MetaType read_type(Reader& reader) {
  const std::uint64_t begin = reader.at();
  const auto type = reader.number<std::uint32_t>("value type");
  if (type < meta_type_count) return static_cast<MetaType>(type);
  reader.stop(broken(ErrorCode::bad_header, "gguf_value_types_are_known", {begin},
                     "metadata value has unknown type {}; known types are 0 to {}", type,
                     meta_type_count - 1));
  return {};
}

std::uint64_t min_bytes(MetaType type) noexcept {
  if (type == MetaType::string) return min_text_bytes;
  if (type == MetaType::array) return array_header_bytes;
  return fixed_bytes(type);
}

std::uint64_t read_array_count(Reader& reader, MetaType type) {
  const std::uint64_t begin = reader.at();
  const auto count = reader.number<std::uint64_t>("array length");
  if (count > max_array_elements) {
    reader.stop(broken(ErrorCode::bad_header, "gguf_arrays_have_at_most_2_30_elements", {begin},
                       "metadata array has {} elements but the limit is {}", count, max_array_elements));
  }
  reader.check_room_for(count, min_bytes(type), "array elements");
  return count;
}

void skip_array(Reader& reader, int depth) {  // NOLINT(misc-no-recursion)
  if (depth > max_array_depth) {
    reader.stop(broken(ErrorCode::bad_header, "gguf_arrays_nest_at_most_8_deep", {reader.at()},
                       "metadata arrays are nested more than {} levels deep", max_array_depth));
  }
  const MetaType type = read_type(reader);
  const std::uint64_t count = read_array_count(reader, type);
  if (type == MetaType::string) {
    reader.skip_texts(count, "string in an array");
  } else if (type != MetaType::array) {
    reader.take(count * fixed_bytes(type), "array");
  } else {
    for (std::uint64_t i = 0; i < count && reader.ok(); ++i) skip_array(reader, depth + 1);
  }
}

void skip_value(Reader& reader, MetaType type) {
  if (type == MetaType::array) {
    skip_array(reader, 1);
  } else if (type == MetaType::string) {
    reader.text("string");
  } else {
    reader.take(fixed_bytes(type), "value");
  }
}

std::string_view read_key(Reader& reader) {
  const std::uint64_t begin = reader.at();
  const auto key = reader.text("metadata key");
  if (key.empty()) {
    reader.stop(broken(ErrorCode::bad_header, "gguf_keys_are_not_empty", {begin}, "metadata key is empty"));
  } else if (!is_utf8(key)) {
    reader.stop(
        broken(ErrorCode::bad_utf8, "gguf_keys_are_utf8", {begin}, "metadata key is not valid UTF-8"));
  }
  return key;
}

// Byte-swaps a number that is in the order `from`, and returns its value.
template <WireNumber T>
T byte_swap_number(MutableBytes bytes, ByteOrder from) noexcept {
  const T number = load_in<T>(from, bytes);
  std::ranges::reverse(bytes.first(sizeof(T)));
  return number;
}

template <IsDType D>
constexpr TensorType dense(std::uint32_t id) {
  return {id, D::tag, {.name = D::name, .block_elements = 1, .block_bytes = D::bits / 8}};
}

constexpr std::array dense_types{dense<F32>(0),  dense<F16>(1),  dense<I8>(24),  dense<I16>(25),
                                 dense<I32>(26), dense<I64>(27), dense<F64>(28), dense<BF16>(30)};

std::optional<TensorType> block_type(EncodingTag tag) noexcept {
  const auto encoding = find_encoding(tag);
  if (!encoding) return std::nullopt;
  return TensorType{.id = static_cast<std::uint32_t>(tag), .encoding = *encoding};
}

void check_and_skip_tensor(Reader& reader) {
  const auto name = reader.text("tensor name");
  const std::uint64_t begin = reader.at();
  const auto rank = reader.number<std::uint32_t>("tensor rank");
  if (rank > max_rank) {
    reader.stop(broken(ErrorCode::bad_shape, "gguf_rank_is_at_most_4", {begin, name},
                       "tensor '{}': rank {} exceeds the limit of {}", to_utf8(name), rank, max_rank));
  }
  reader.take(rank * sizeof(std::int64_t) + sizeof(std::uint32_t) + sizeof(std::uint64_t),
              "tensor shape, type and offset");
}

}  // namespace

Bytes Reader::take(std::uint64_t bytes, std::string_view field) {
  if (!ok()) return {};
  if (bytes > left_in_file()) {
    stop(broken(ErrorCode::truncated, "header_is_complete", {file_bytes_},
                "header is incomplete: {} at byte {} needs {} bytes but the file has {} bytes", field, at_,
                bytes, file_bytes_));
  } else if (!checked::range_fits(at_, bytes, max_header_bytes_)) {
    stop(broken(ErrorCode::header_too_large, "gguf_header_is_within_the_limit", {at_},
                "header exceeds the limit of {} bytes: {} at byte {} has {} bytes", max_header_bytes_, field,
                at_, bytes));
  } else if (bytes > left_in_prefix()) {
    needed_ = at_ + bytes;
  } else {
    const Bytes taken = prefix_.subspan(at_, static_cast<std::size_t>(bytes));
    at_ += taken.size();
    return taken;
  }
  return {};
}

std::string_view Reader::text(std::string_view field) {
  const std::uint64_t begin = at_;
  const auto length = number<std::uint64_t>(field);
  if (length > max_text_bytes) {
    stop(broken(ErrorCode::bad_header, "gguf_strings_have_at_most_2_30_bytes", {begin},
                "{} has {} bytes but the limit is {}", field, length, max_text_bytes));
  }
  return as_text(take(length, field));
}

// Skips strings by adding up their lengths. Stops before a string that is incomplete or too long. Returns the
// number of skipped strings. The loop must be fast, because vocabularies are most of a header.
template <std::endian Order>
std::uint64_t Reader::skip_complete_texts(std::uint64_t count) noexcept {
  const Bytes prefix =
      prefix_.first(static_cast<std::size_t>(std::min<std::uint64_t>(prefix_.size(), max_header_bytes_)));
  // The address of a length depends on all lengths before it, and this chain limits the speed. `at` adds up
  // only the lengths, so the chain has one load and one addition per string. `passed * min_text_bytes`, the
  // size of the length fields, is not part of the chain.
  std::size_t at = at_;
  std::uint64_t passed = 0;
  for (; passed < count; ++passed) {
    const std::size_t begin = at + passed * min_text_bytes;
    if (begin + min_text_bytes > prefix.size()) break;
    const auto length = load<std::uint64_t, Order>(prefix.subspan(begin, min_text_bytes));
    if (length > std::min<std::uint64_t>(prefix.size() - begin - min_text_bytes, max_text_bytes)) break;
    at += static_cast<std::size_t>(length);
  }
  at_ = at + passed * min_text_bytes;
  return passed;
}

void Reader::skip_texts(std::uint64_t count, std::string_view field) {
  if (!ok()) return;
  const std::size_t begin = at_;
  const std::uint64_t passed = order_ == ByteOrder::big ? skip_complete_texts<std::endian::big>(count)
                                                        : skip_complete_texts<std::endian::little>(count);
  if (passed == count) return;
  const std::uint64_t average = passed == 0 ? min_text_bytes : (at_ - begin) / passed + 1;
  const std::uint64_t rest = (count - passed) * average;
  // The next string cannot be read; `text` records the reason.
  text(field);
  // The types, scores and merges of a vocabulary follow it. Reading some extra bytes costs less than a second
  // pass.
  extend_request(std::min(max_estimate, begin < first_bytes
                                            ? std::max(rest, count * vocabulary_bytes_per_token)
                                            : rest + rest / 16 + first_bytes));
}

void Reader::check_room_for(std::uint64_t count, std::uint64_t min_item_bytes, std::string_view items) {
  if (count <= left_in_file() / min_item_bytes) return;
  stop(broken(ErrorCode::truncated, "gguf_counts_fit_in_the_file", {at_},
              "header declares {} {} but only {} bytes follow", count, items, left_in_file()));
}

void Reader::extend_request(std::uint64_t bytes) noexcept {
  if (needed_ != 0) needed_ = std::max(needed_, checked::add<std::uint64_t>(at_, bytes).value_or(0));
}

Result<ParseResult> Reader::stop_reason() && {
  if (error_) return fail(*std::move(error_));
  const std::uint64_t larger = std::max<std::uint64_t>(first_bytes, 2 * prefix_.size());
  return Need{0, std::min({std::max(needed_, larger), file_bytes_, max_header_bytes_})};
}

std::vector<Pair> read_pairs(Reader& reader, std::uint64_t count) {
  std::vector<Pair> pairs;
  // Bounded by the bytes read so far, whatever count the file declares.
  pairs.reserve(
      std::min<std::size_t>(static_cast<std::size_t>(count), reader.left_in_prefix() / min_pair_bytes));
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    const auto key = read_key(reader);
    const MetaType type = read_type(reader);
    const std::size_t begin = reader.at();
    skip_value(reader, type);
    pairs.push_back({key, MetaValue(type, reader.since(begin))});
  }
  return pairs;
}

std::string_view pair_fault(const Metadata::Item& item) {
  if (item.key.empty() || !is_utf8(item.key)) return "the key is empty or not valid UTF-8";
  const Bytes bytes = item.value.bytes();
  Reader reader(bytes, bytes.size(), UINT64_MAX);
  skip_value(reader, item.value.type());
  if (!reader.ok() || reader.at() != bytes.size()) return "the value exceeds a limit on its size or nesting";
  return {};
}

// NOLINTNEXTLINE(misc-no-recursion)
std::size_t byte_swap_value(MetaType type, MutableBytes value, ByteOrder from) noexcept {
  if (const auto bytes = fixed_bytes(type); bytes != 0) {
    std::ranges::reverse(value.first(bytes));
    return bytes;
  }
  if (type == MetaType::string) {
    return min_text_bytes + static_cast<std::size_t>(byte_swap_number<std::uint64_t>(value, from));
  }
  const auto element = static_cast<MetaType>(byte_swap_number<std::uint32_t>(value, from));
  const auto count = byte_swap_number<std::uint64_t>(value.subspan(sizeof(std::uint32_t)), from);
  std::size_t at = array_header_bytes;
  for (std::uint64_t i = 0; i < count; ++i) at += byte_swap_value(element, value.subspan(at), from);
  return at;
}

std::optional<TensorType> find_type(std::uint32_t id) noexcept {
  const auto found = std::ranges::find(dense_types, id, &TensorType::id);
  if (found != dense_types.end()) return *found;
  const auto number = checked::narrow<std::uint8_t>(id);
  return number ? block_type(static_cast<EncodingTag>(*number)) : std::nullopt;
}

std::optional<TensorType> type_of(const Entry& entry) noexcept {
  if (entry.encoding != EncodingTag::dense) return block_type(entry.encoding);
  const auto found = std::ranges::find(dense_types, entry.dtype, &TensorType::dtype);
  if (found == dense_types.end()) return std::nullopt;
  return *found;
}

void check_and_skip_table(Reader& reader, std::uint64_t count) {
  const std::uint64_t begin = reader.at();
  for (std::uint64_t i = 0; i < count && reader.ok(); ++i) {
    const std::uint64_t passed = reader.at() - begin;
    check_and_skip_tensor(reader);
    if (reader.ok()) continue;
    // The tensors have similar sizes in the table. A product that overflows makes a wrong estimate, which
    // affects speed only.
    reader.extend_request((count - i) * min_tensor_bytes);
    if (i > 0) reader.extend_request(passed / i * (count - i));
  }
}

bool DataPlan::place(std::uint64_t bytes) noexcept {
  const auto end = checked::add(next, bytes);
  const auto filled = end ? checked::align_up(*end, alignment) : std::nullopt;
  const auto in_file = filled ? checked::add(begin, *filled) : std::nullopt;
  if (!in_file || !checked::narrow<std::int64_t>(*in_file)) return false;
  next = *filled;
  return true;
}

}  // namespace ht::inline v1::format_gguf
