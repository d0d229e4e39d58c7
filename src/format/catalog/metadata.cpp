#include <htensor/format/metadata.hpp>

#include <algorithm>
#include <array>
#include <bit>

#include "base/format_text.hpp"
#include "format/catalog/name_store.hpp"

namespace ht::inline v1 {
namespace {

struct TypeRow {
  std::string_view name;
  std::uint32_t bytes;
};

constexpr std::array<TypeRow, meta_type_count> types{{{"u8", 1},
                                                      {"i8", 1},
                                                      {"u16", 2},
                                                      {"i16", 2},
                                                      {"u32", 4},
                                                      {"i32", 4},
                                                      {"f32", 4},
                                                      {"bool", 1},
                                                      {"string", 0},
                                                      {"array", 0},
                                                      {"u64", 8},
                                                      {"i64", 8},
                                                      {"f64", 8}}};

constexpr std::size_t length_bytes = sizeof(std::uint64_t);
constexpr std::size_t array_header_bytes = sizeof(std::uint32_t) + sizeof(std::uint64_t);

MetaType array_type(Bytes bytes) noexcept { return static_cast<MetaType>(load_le<std::uint32_t>(bytes)); }
std::uint64_t array_size(Bytes bytes) noexcept {
  return load_le<std::uint64_t>(bytes.subspan(sizeof(std::uint32_t)));
}

// The size of the first value in `bytes`. The bytes must be well-formed, and the nesting of arrays bounded.
std::size_t value_bytes(MetaType type, Bytes bytes) noexcept {  // NOLINT(misc-no-recursion)
  if (type == MetaType::string) return length_bytes + static_cast<std::size_t>(load_le<std::uint64_t>(bytes));
  if (type != MetaType::array) return fixed_bytes(type);
  const MetaType element = array_type(bytes);
  const auto count = static_cast<std::size_t>(array_size(bytes));
  if (const auto each = fixed_bytes(element); each != 0) return array_header_bytes + count * each;
  std::size_t total = array_header_bytes;
  for (std::size_t i = 0; i < count; ++i) total += value_bytes(element, bytes.subspan(total));
  return total;
}

std::optional<std::int64_t> signed_number(MetaType type, Bytes bytes) noexcept {
  switch (type) {
    case MetaType::i8: return load_le<std::int8_t>(bytes);
    case MetaType::i16: return load_le<std::int16_t>(bytes);
    case MetaType::i32: return load_le<std::int32_t>(bytes);
    case MetaType::i64: return load_le<std::int64_t>(bytes);
    default: return std::nullopt;
  }
}

std::optional<std::uint64_t> unsigned_number(MetaType type, Bytes bytes) noexcept {
  switch (type) {
    case MetaType::u8: return load_le<std::uint8_t>(bytes);
    case MetaType::u16: return load_le<std::uint16_t>(bytes);
    case MetaType::u32: return load_le<std::uint32_t>(bytes);
    case MetaType::u64: return load_le<std::uint64_t>(bytes);
    default: return std::nullopt;
  }
}

}  // namespace

std::uint32_t fixed_bytes(MetaType type) noexcept { return types[static_cast<std::size_t>(type)].bytes; }

std::string_view to_string(MetaType type) noexcept { return types[static_cast<std::size_t>(type)].name; }

std::optional<std::string_view> MetaValue::text() const noexcept {
  if (type_ != MetaType::string) return std::nullopt;
  const Bytes text = bytes_.subspan(length_bytes);
  return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
}

std::optional<bool> MetaValue::boolean() const noexcept {
  if (type_ != MetaType::boolean) return std::nullopt;
  return bytes_[0] != std::byte{0};
}

std::optional<std::int64_t> MetaValue::integer() const noexcept {
  if (const auto number = unsigned_number(type_, bytes_)) return checked::narrow<std::int64_t>(*number);
  return signed_number(type_, bytes_);
}

std::optional<std::uint64_t> MetaValue::unsigned_integer() const noexcept {
  if (const auto number = signed_number(type_, bytes_)) return checked::narrow<std::uint64_t>(*number);
  return unsigned_number(type_, bytes_);
}

std::optional<double> MetaValue::real() const noexcept {
  if (type_ == MetaType::f32) return load_le<float>(bytes_);
  if (type_ == MetaType::f64) return load_le<double>(bytes_);
  return std::nullopt;
}

std::optional<MetaValue::Array> MetaValue::array() const noexcept {
  if (type_ != MetaType::array) return std::nullopt;
  return MetaValue::Array(array_type(bytes_), array_size(bytes_), bytes_.subspan(array_header_bytes));
}

MetaValue MetaValue::Array::Iterator::operator*() const noexcept {
  return {type_, bytes_.first(value_bytes(type_, bytes_))};
}

MetaValue::Array::Iterator& MetaValue::Array::Iterator::operator++() noexcept {
  bytes_ = bytes_.subspan(value_bytes(type_, bytes_));
  --left_;
  return *this;
}

Metadata::Item Metadata::operator[](std::size_t index) const noexcept {
  const auto begin = static_cast<std::size_t>(index == 0 ? 0 : ends_[index - 1]);
  const auto end = static_cast<std::size_t>(ends_[index]);
  // A well-formed value has at least one byte, so a value without bytes in `values_` is in `external_`.
  if (begin == end) return {(*keys_)[index], MetaValue(types_[index], external_bytes(index))};
  return {(*keys_)[index], MetaValue(types_[index], Bytes(values_).subspan(begin, end - begin))};
}

detail::IndexIterator<Metadata> Metadata::begin() const noexcept { return {*this, 0}; }
detail::IndexIterator<Metadata> Metadata::end() const noexcept { return {*this, size()}; }

Bytes Metadata::external_bytes(std::size_t index) const noexcept {
  const auto found = std::ranges::lower_bound(external_, index, {}, &ExternalValue::index);
  return found != external_.end() && found->index == index ? found->bytes : Bytes();
}

bool operator==(const Metadata& a, const Metadata& b) noexcept {
  if (detail::names_in(a.keys_) != detail::names_in(b.keys_) || a.types_ != b.types_) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::ranges::equal(a[i].value.bytes(), b[i].value.bytes())) return false;
  }
  return true;
}

std::optional<MetaValue> Metadata::find(std::string_view key) const noexcept {
  const auto found = detail::names_in(keys_).find(key);
  if (!found) return std::nullopt;
  return (*this)[*found].value;
}

std::optional<std::size_t> Metadata::index_of(std::string_view key) const noexcept {
  return detail::names_in(keys_).find(key);
}

Result<void> Metadata::reserve(std::size_t values, std::size_t key_bytes, std::size_t value_bytes) {
  return without_bad_alloc([&]() -> Result<void> {
    detail::writable_names(keys_).reserve(values, key_bytes);
    types_.reserve(values);
    ends_.reserve(values);
    values_.reserve(value_bytes);
    return {};
  });
}

Result<void> Metadata::add(std::string_view key, std::string_view text) {
  std::array<std::byte, length_bytes> length{};
  store_le(MutableBytes(length), static_cast<std::uint64_t>(text.size()));
  return append(key, MetaType::string, length, bytes_of(text));
}

Result<void> Metadata::add(std::string_view key, const MetaValue& value) {
  return append(key, value.type(), {}, value.bytes());
}

Result<void> Metadata::add(std::string_view key, const MetaValue& value, std::shared_ptr<const void> owner) {
  HT_TRY(append(key, value.type(), {}, {}));
  return without_bad_alloc([&]() -> Result<void> {
    external_.push_back({size() - 1, value.bytes(), std::move(owner)});
    return {};
  });
}

Result<void> Metadata::append(std::string_view key, MetaType type, Bytes length, Bytes value) {
  return without_bad_alloc([&]() -> Result<void> {
    values_.insert(values_.end(), length.begin(), length.end());
    values_.insert(values_.end(), value.begin(), value.end());
    ends_.push_back(values_.size());
    detail::writable_names(keys_).add(key);
    types_.push_back(type);
    return {};
  });
}

Result<void> Metadata::index() {
  return without_bad_alloc([&]() -> Result<void> {
    const auto duplicate = detail::writable_names(keys_).build_index();
    if (!duplicate) return {};
    return fail(Error(ErrorCode::duplicate_key, "metadata_keys_are_unique",
                      format_text("metadata key '{}' occurs twice", (*keys_)[*duplicate]))
                    .with_hint("write the file again with its exporter"));
  });
}

void Metadata::trim() {
  if (keys_) detail::writable_names(keys_).trim();
  detail::trim(types_);
  detail::trim(ends_);
  detail::trim(values_);
}

std::uint64_t Metadata::memory_bytes() const noexcept {
  std::uint64_t external = external_.capacity() * sizeof(ExternalValue);
  for (const auto& value : external_) external += value.bytes.size();
  return detail::names_in(keys_).memory_bytes() + types_.capacity() * sizeof(MetaType) +
         ends_.capacity() * sizeof(std::uint64_t) + values_.capacity() + external;
}

}  // namespace ht::inline v1
