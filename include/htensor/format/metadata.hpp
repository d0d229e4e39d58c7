// The metadata of a model: keys in file order, values with their types.
//
// Values are stored as GGUF writes them in little endian, one after another: a vocabulary of 150,000 strings
// is one range of bytes, without a string object. A large value may stay in the memory it was read into,
// which copies of the Metadata then share. Values are views; they are valid while the Metadata that they came
// from is alive and unchanged.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/index_iterator.hpp>
#include <htensor/base/result.hpp>
#include <htensor/format/name_store.hpp>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ht::inline v1 {

/// GGUF's value types under GGUF's numbers.
enum class MetaType : std::uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

inline constexpr std::uint32_t meta_type_count = 13;

/// Bytes of a value of the type; 0 for strings and arrays, whose sizes differ.
[[nodiscard]] std::uint32_t fixed_bytes(MetaType type) noexcept;
/// "u32", "string", …
[[nodiscard]] std::string_view to_string(MetaType type) noexcept;

/// The type that a C++ type is stored as.
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

class MetaArray;

/// A value. Each question is answered for the types that it makes sense for, and with nothing for others.
class MetaValue {
 public:
  MetaValue(MetaType type, Bytes bytes) noexcept : type_(type), bytes_(bytes) {}

  [[nodiscard]] MetaType type() const noexcept { return type_; }
  /// As it is stored: a number in little endian, a string behind its u64 length, an array behind its u32
  /// type and u64 count.
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }

  [[nodiscard]] std::optional<std::string_view> text() const noexcept;
  [[nodiscard]] std::optional<bool> boolean() const noexcept;
  /// Any whole number, signed or not, that fits.
  [[nodiscard]] std::optional<std::int64_t> integer() const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> natural() const noexcept;
  /// f32 and f64.
  [[nodiscard]] std::optional<double> real() const noexcept;
  /// To loop over it, give it a name first: `const auto tokens = value.array().value();`.
  [[nodiscard]] std::optional<MetaArray> array() const noexcept;

 private:
  MetaType type_;
  Bytes bytes_;
};

/// Elements of one type, read one after another.
class MetaArray {
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

  /// `elements` are the bytes behind the array's type and count.
  MetaArray(MetaType type, std::uint64_t size, Bytes elements) noexcept
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

static_assert(std::forward_iterator<MetaArray::Iterator>);

/// A range of items in file order.
class Metadata {
 public:
  struct Item {
    std::string_view key;
    MetaValue value;
  };

  [[nodiscard]] std::size_t size() const noexcept { return keys_.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// The nth in file order; there must be one.
  [[nodiscard]] Item operator[](std::size_t index) const noexcept;
  [[nodiscard]] IndexIterator<Metadata> begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] IndexIterator<Metadata> end() const noexcept { return {*this, size()}; }
  /// The value of a key, in constant time; only once `index` was called, as a Catalog's builder does.
  [[nodiscard]] std::optional<MetaValue> find(std::string_view key) const noexcept;

  /// Room for this many values, with this many bytes of keys and of values in all. A number from a file is
  /// not to be trusted with it.
  [[nodiscard]] Result<void> reserve(std::size_t values, std::size_t key_bytes, std::size_t value_bytes);
  /// How many bytes of values a text takes.
  [[nodiscard]] static constexpr std::size_t bytes_of_text(std::string_view text) noexcept {
    return sizeof(std::uint64_t) + text.size();
  }
  [[nodiscard]] Result<void> add(std::string_view key, std::string_view text);
  /// Copies a value. Its bytes must be well formed, as `MetaValue::bytes` has them: the caller has checked
  /// them.
  [[nodiscard]] Result<void> add(std::string_view key, const MetaValue& value);
  /// The same without a copy of the value's bytes: `owner` keeps them alive and unchanged.
  [[nodiscard]] Result<void> add(std::string_view key, const MetaValue& value,
                                 std::shared_ptr<const void> owner);
  /// A number or a truth value, of the very type.
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

  /// `duplicate_key` where a key is there twice.
  [[nodiscard]] Result<void> index();
  /// Gives memory back that growing has taken and values do not need, where it is much.
  void trim();
  /// Bytes of memory in use; values with an owner count, the rest of the owner's memory does not.
  [[nodiscard]] std::uint64_t memory_bytes() const noexcept;

  /// The same keys in the same order, with values of the same types and bytes.
  friend bool operator==(const Metadata& a, const Metadata& b) noexcept;

 private:
  struct Owned {
    std::size_t index;
    Bytes bytes;
    std::shared_ptr<const void> owner;
  };

  [[nodiscard]] Result<void> append(std::string_view key, MetaType type, Bytes length, Bytes value);
  [[nodiscard]] Bytes owned_bytes(std::size_t index) const noexcept;

  NameStore keys_;
  std::vector<MetaType> types_;
  std::vector<std::uint64_t> ends_;  // in values_; a value with an owner has no bytes there
  std::vector<std::byte> values_;
  std::vector<Owned> owned_;  // by index
};

}  // namespace ht::inline v1
