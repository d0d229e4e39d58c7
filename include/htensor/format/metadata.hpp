// The metadata of a model: keys in file order, values with their types.
//
//   for (const auto& [key, value] : model.catalog().metadata()) print(key, value.type());
//   const auto layers = model.catalog().metadata().find("llama.block_count");     // std::optional<MetaValue>
//   if (layers) use(layers->unsigned_integer());                                  // nullopt for a text
//   ht::Metadata metadata;
//   HT_TRY(metadata.add("general.name", "tiny"));
//   HT_TRY(metadata.add("llama.block_count", std::uint32_t{2}));
//
// Values are stored back to back in GGUF's little-endian form: a vocabulary of 150,000 strings is one range
// of bytes, without string objects. A large value may stay in the memory that it was read into; copies of the
// Metadata share that memory. Keys and values are views, valid while their Metadata is alive and unchanged.
// Many threads may read a const Metadata.
//
// Cost: `find` takes constant time; a copy of the Metadata shares the keys and the large values, and copies
// the other values. An array of numbers is accessed in place; iteration over strings reads each length.
//
// Errors: functions that allocate return `out_of_memory`. The Metadata may then be destroyed or assigned to,
// but not read or extended.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/names.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ht::inline v1::detail {
class NameStore;  // names of tensors or keys of metadata, src/format/catalog/name_store.hpp
}

namespace ht::inline v1 {

/// GGUF's value types, with GGUF's numbers.
enum class MetaType : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

inline constexpr std::uint32_t meta_type_count = 13;

/// The size of a value of the type in bytes; 0 for strings and arrays, whose sizes vary.
[[nodiscard]] std::uint32_t fixed_bytes(MetaType type) noexcept;
/// The name of the type: "u32", "string", …
[[nodiscard]] std::string_view to_string(MetaType type) noexcept;

/// The MetaType that stores a C++ type: an integer or floating-point type of at most 8 bytes, or `bool`.
/// Other types do not compile.
template <class T>
inline constexpr MetaType meta_type_of = [] {
  if constexpr (std::same_as<T, bool>) return MetaType::boolean;
  constexpr std::size_t width = std::countr_zero(sizeof(T));
  static_assert(std::is_arithmetic_v<T> && width < 4, "GGUF has no such type");
  if constexpr (std::is_floating_point_v<T>) return width == 2 ? MetaType::f32 : MetaType::f64;
  constexpr std::array whole{MetaType::u8, MetaType::u16, MetaType::u32, MetaType::u64};
  constexpr std::array with_sign{MetaType::i8, MetaType::i16, MetaType::i32, MetaType::i64};
  return std::is_signed_v<T> ? with_sign[width] : whole[width];
}();

/// A view of a value, which does not own the bytes. Each accessor returns nullopt for a value of another
/// type, allocates nothing and converts nothing: `real` of an integer is nullopt.
class MetaValue {
 public:
  class Array;

  /// `bytes` must have the stored form of the type, which `bytes()` describes: malformed bytes are undefined
  /// behaviour. The caller keeps them alive.
  MetaValue(MetaType type, Bytes bytes) noexcept : type_(type), bytes_(bytes) {}

  [[nodiscard]] MetaType type() const noexcept { return type_; }
  /// The stored form. A number: its little-endian bytes. A string: a u64 length, then the text. An array: the
  /// u32 type of its elements, a u64 count, then the elements.
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }

  /// The string in place. It may contain NUL, and a NUL need not follow it.
  [[nodiscard]] std::optional<std::string_view> text() const noexcept;
  [[nodiscard]] std::optional<bool> boolean() const noexcept;
  /// The value of any integer type, if it fits: a u64 above 2^63-1 is nullopt.
  [[nodiscard]] std::optional<std::int64_t> integer() const noexcept;
  /// The same as an unsigned number: a negative value is nullopt.
  [[nodiscard]] std::optional<std::uint64_t> unsigned_integer() const noexcept;
  /// The value of an f32 or f64.
  [[nodiscard]] std::optional<double> real() const noexcept;
  /// The array. To iterate over it, store it in a variable first:
  /// `const auto tokens = value.array().value();`.
  [[nodiscard]] std::optional<Array> array() const noexcept;

 private:
  MetaType type_;
  Bytes bytes_;
};

/// Elements of one type, with forward iteration only: strings and arrays have no fixed size. A view of the
/// same bytes as the value. Elements may be arrays.
class MetaValue::Array {
 public:
  class Iterator {
   public:
    using value_type = MetaValue;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(MetaType type, std::uint64_t left, Bytes bytes) noexcept
        : type_(type), left_(left), bytes_(bytes) {}

    MetaValue operator*() const noexcept;
    Iterator& operator++() noexcept;
    Iterator operator++(int) noexcept {
      auto before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.left_ == b.left_; }

   private:
    MetaType type_ = MetaType::u8;
    std::uint64_t left_ = 0;
    Bytes bytes_{};
  };

  /// `elements` are the bytes after the array's type and count.
  Array(MetaType type, std::uint64_t size, Bytes elements) noexcept
      : type_(type), size_(size), elements_(elements) {}

  [[nodiscard]] MetaType element_type() const noexcept { return type_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] Iterator begin() const noexcept { return {type_, size_, elements_}; }
  [[nodiscard]] Iterator end() const noexcept { return {type_, 0, {}}; }

 private:
  MetaType type_;
  std::uint64_t size_;
  Bytes elements_;
};

/// A range of items in file order.
class Metadata {
 public:
  struct Item {
    std::string_view key;
    MetaValue value;
  };

  [[nodiscard]] std::size_t size() const noexcept { return types_.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// The item at `index`, in file order. `index` must be less than `size`.
  [[nodiscard]] Item operator[](std::size_t index) const noexcept;
  [[nodiscard]] detail::IndexIterator<Metadata> begin() const noexcept;
  [[nodiscard]] detail::IndexIterator<Metadata> end() const noexcept;
  /// The value of a key, in constant time; nullopt if there is none. Requires `index`, which
  /// CatalogBuilder::build calls: keys that were added later are not found.
  [[nodiscard]] std::optional<MetaValue> find(std::string_view key) const noexcept;
  /// The index of a key, with the same cost and requirement.
  [[nodiscard]] std::optional<std::size_t> index_of(std::string_view key) const noexcept;

  /// Reserves memory for this many values, and for this many bytes of all keys and all values. Do not pass
  /// unchecked numbers from a file.
  [[nodiscard]] Result<void> reserve(std::size_t values, std::size_t key_bytes, std::size_t value_bytes);
  /// The number of value bytes that a text needs.
  [[nodiscard]] static constexpr std::size_t bytes_of_text(std::string_view text) noexcept {
    return sizeof(std::uint64_t) + text.size();
  }
  /// Adds a copy of the key and of the text. `index` reports a key that is added twice.
  [[nodiscard]] Result<void> add(std::string_view key, std::string_view text);
  /// Adds a copy of a value. The caller has checked that its bytes are well-formed, as `MetaValue::bytes`
  /// describes.
  [[nodiscard]] Result<void> add(std::string_view key, const MetaValue& value);
  /// The same without a copy of the value's bytes: `owner` keeps them alive and unchanged.
  [[nodiscard]] Result<void> add(std::string_view key, const MetaValue& value,
                                 std::shared_ptr<const void> owner);
  /// Adds a number or a boolean, of exactly the type T.
  template <class T>
    requires std::is_arithmetic_v<T>
  [[nodiscard]] Result<void> add(std::string_view key, T value) {
    std::array<std::byte, sizeof(T)> bytes{};
    if constexpr (std::same_as<T, bool>) {
      bytes[0] = static_cast<std::byte>(value);
    } else {
      store_le(MutableBytes(bytes), value);
    }
    return add(key, MetaValue(meta_type_of<T>, bytes));
  }

  /// Builds the index for `find`. `duplicate_key` if a key occurs twice.
  [[nodiscard]] Result<void> index();
  /// Releases unused capacity, if it is large. May throw std::bad_alloc.
  void trim();
  /// Bytes of memory in use, including values with an owner but not the rest of the owner's memory.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  /// The same keys in the same order, with values of the same types and bytes.
  friend bool operator==(const Metadata& a, const Metadata& b) noexcept;

 private:
  // A value that stays in the memory of its owner.
  struct ExternalValue {
    std::size_t index;
    Bytes bytes;
    std::shared_ptr<const void> owner;
  };

  [[nodiscard]] Result<void> append(std::string_view key, MetaType type, Bytes length, Bytes value);
  [[nodiscard]] Bytes external_bytes(std::size_t index) const noexcept;

  std::shared_ptr<detail::NameStore> keys_;
  std::vector<MetaType> types_;
  std::vector<std::uint64_t> ends_;  // in values_; an external value has no bytes there
  std::vector<std::byte> values_;
  std::vector<ExternalValue> external_;  // by index
};

// Changes to metadata, with values as text or in stored form.

/// Whether the item is padding that an edit left in a header (`htensor.pad`, spaces only). It describes the
/// file's layout and not the model, so it is not shown, compared or converted.
[[nodiscard]] bool is_padding(const Metadata::Item& item) noexcept;

/// Whether the item describes the layout of a file and not the model: padding (see `is_padding`), and the
/// keys `general.alignment` and `split.*`, which GGUF defines. After a conversion, a file of another format
/// may have the keys of GGUF, too.
[[nodiscard]] bool describes_layout(const Metadata::Item& item) noexcept;

/// A change of one key.
struct MetadataEdit {
  /// The type of a value and, for an array, of its elements.
  struct Type {
    MetaType type = MetaType::string;
    MetaType element = MetaType::string;

    friend bool operator==(const Type&, const Type&) = default;
  };

  std::string key;
  /// A decimal number, `true` or `false`, a plain string, or an array as a JSON list. nullopt removes the
  /// key.
  std::optional<std::string> value{};
  /// If nullopt, an existing key keeps its type and a new key is a string.
  std::optional<Type> type{};
  /// The value in stored form; `value` and `type` are then ignored. Its bytes must be well-formed, as
  /// `MetaValue::bytes` describes, and outlive the edit.
  std::optional<MetaValue> stored_value{};
};

/// The type with this name: "u32", "string", … or "array:u32". nullopt if there is none.
[[nodiscard]] std::optional<MetadataEdit::Type> value_type_named(std::string_view name) noexcept;

/// Returns the metadata after all edits, applied in order. An existing key keeps its position; a new key is
/// appended. The input is unchanged, and the result shares no memory with it or with the edits. `not_found`
/// for a key to remove that does not exist, `dtype_mismatch` for a value that does not match its type;
/// `out_of_memory`.
[[nodiscard]] Result<Metadata> apply_edits(const Metadata& metadata, std::span<const MetadataEdit> edits);

}  // namespace ht::inline v1
