// The boundary between C and C++: no exception and no C++ type crosses it.
//
//   ht_status ht_model_get(…, ht_tensor** tensor, ht_error** error) {
//     return call(error, [&]() -> Result<void> {
//       HT_TRY(require(tensor != nullptr, "tensor"));
//       …
//     });
//   }
#pragma once

#include <htensor/htensor.h>

#include <algorithm>
#include <cstring>
#include <htensor/base/result.hpp>
#include <memory>
#include <memory_resource>
#include <string_view>
#include <type_traits>

namespace ht::c {

/// Returns the code of the error. Unless `out` is NULL, `*out` becomes a new ht_error that the caller owns.
ht_status report(const Error& error, ht_error** out) noexcept;
/// The same for the exception that is being handled.
ht_status report_exception(ht_error** out) noexcept;

/// Runs the body of a C function, which returns a `Result<void>`.
template <class Body>
ht_status call(ht_error** error, const Body& body) noexcept {
  try {
    const Result<void> done = body();
    return done ? HT_OK : report(done.error(), error);
  } catch (...) {
    return report_exception(error);
  }
}

// In the checks below, `name` is the name of the argument for the error message.

/// Checks a required pointer: fails with `bad_state` if `is_given` is false.
[[nodiscard]] Result<void> require(bool is_given, std::string_view name);

/// Fails with `bad_state` unless `number` is a value of the enumeration, 0 to `max`.
[[nodiscard]] Result<void> check_choice(int number, int max, std::string_view name);

/// Fails with `out_of_bounds` unless `index` < `size`. `noun` names the items of the list in the error
/// message, in the plural.
[[nodiscard]] Result<void> check_position(std::size_t index, std::size_t size, std::string_view noun);

/// Returns the text of an argument, borrowed. A size of 0 means that the text ends at its first NUL. Fails
/// with `bad_state` if `data` is NULL.
[[nodiscard]] Result<std::string_view> text_of(const char* data, std::size_t size, std::string_view name);

/// Returns a text of a struct, borrowed. NULL is the empty text.
[[nodiscard]] inline std::string_view text_of(const ht_string& text) noexcept {
  if (text.data == nullptr) return {};
  return {text.data, text.size == 0 ? std::strlen(text.data) : text.size};
}
[[nodiscard]] inline std::string_view text_or_empty(const char* text) noexcept {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

// Structs whose first field is their size.

/// The size of the struct T in the first version of the library that has it. To append a field to T,
/// specialize `first_size<T>` with the old size. The offset of the new field must be at least the old size:
/// if T ended with padding, first declare a reserved field in the place of the padding.
template <class T>
inline constexpr std::size_t first_size = sizeof(T);

/// Fails with `bad_state` if `size` is smaller than `first`, the size in the first version.
[[nodiscard]] Result<void> check_size(std::size_t size, std::size_t first, std::string_view name);
/// Fails with `bad_state` if a byte of the struct from `known` on is not 0: that byte belongs to a field of a
/// later version, which this library does not support.
[[nodiscard]] Result<void> check_later_fields(const void* given, std::size_t size, std::size_t known,
                                              std::string_view name);

/// Copies a struct of the caller, of any version. Fields that the caller's version lacks are 0, their
/// default; for NULL, all fields are 0.
template <class T>
[[nodiscard]] Result<T> read_struct(const T* given, std::string_view name) {
  T known{};
  if (given == nullptr) return known;
  HT_TRY(check_size(given->size, first_size<T>, name));
  HT_TRY(check_later_fields(given, given->size, sizeof(T), name));
  std::memcpy(&known, given, std::min(given->size, sizeof(T)));
  return known;
}

/// Fails with `bad_state` if `into` is NULL or states a size that is too small.
template <class T>
[[nodiscard]] Result<void> check_output(const T* into, std::string_view name) {
  HT_TRY(require(into != nullptr, name));
  return check_size(into->size, first_size<T>, name);
}

/// Writes the fields that the caller's version of the struct has. Fields of versions after this library
/// become 0.
template <class T>
void write_struct(T* into, T value) noexcept {
  const std::size_t size = into->size;
  value.size = size;
  std::memcpy(into, &value, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<std::byte*>(into) + sizeof(T), 0, size - sizeof(T));
}

/// Allocates the texts and arrays of one object; the destructor frees all of them. Its functions throw
/// std::bad_alloc.
class Memory {
 public:
  template <class T>
  [[nodiscard]] T* array(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
    if (count == 0) return nullptr;
    auto* const items = std::pmr::polymorphic_allocator<T>(&resource_).allocate(count);
    std::uninitialized_value_construct_n(items, count);
    return items;
  }
  [[nodiscard]] ht_string text(std::string_view text);
  [[nodiscard]] const char* c_text(std::string_view text) { return this->text(text).data; }
  [[nodiscard]] const ht_error* error(const Error& error);

  /// An array with `convert(item)` for each item of a range.
  template <class Range, class Convert>
  [[nodiscard]] auto* array_of(const Range& range, const Convert& convert) {
    using Item = std::remove_cvref_t<decltype(convert(*std::begin(range)))>;
    auto* const items = array<Item>(std::size(range));
    std::ranges::transform(range, items, convert);
    return items;
  }

 private:
  std::pmr::monotonic_buffer_resource resource_;
};

/// Precedes each result in memory, so that `ht_result_free` finds the `Memory` to delete.
struct ResultPrefix {
  alignas(16) Memory* memory = nullptr;
};

/// A C struct with its texts and arrays, to be released by `ht_result_free`.
template <class T>
class ResultOf {
 public:
  ResultOf() : memory_(std::make_unique<Memory>()), placed_(memory_->array<Placed>(1)) {}
  [[nodiscard]] Memory& memory() noexcept { return *memory_; }
  [[nodiscard]] T* operator->() noexcept { return &placed_->result; }
  /// Passes ownership to the caller.
  [[nodiscard]] const T* release() && noexcept {
    placed_->prefix.memory = memory_.release();
    return &placed_->result;
  }

 private:
  struct Placed {
    ResultPrefix prefix;
    T result;
  };
  static_assert(alignof(T) <= alignof(ResultPrefix));

  std::unique_ptr<Memory> memory_;
  Placed* placed_;
};

}  // namespace ht::c
