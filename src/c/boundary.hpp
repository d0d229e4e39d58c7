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

/// Creates the caller's error, unless `out` is NULL, and returns its code.
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

/// `bad_state` unless a required pointer is given.
[[nodiscard]] Result<void> require(bool is_given, std::string_view name);

/// `bad_state` unless the number is one of the values 0 to `max` of an enumeration.
[[nodiscard]] Result<void> check_choice(int number, int max, std::string_view name);

/// `out_of_bounds` unless `index` is less than `size`, the number of `things`.
[[nodiscard]] Result<void> check_position(std::size_t index, std::size_t size, std::string_view things);

/// A text argument; a size of 0 means that it ends at its first NUL. `bad_state` for NULL.
[[nodiscard]] Result<std::string_view> text_of(const char* data, std::size_t size, std::string_view name);

/// The same for a text in a struct, where NULL is the empty text.
[[nodiscard]] inline std::string_view text_of(const ht_string& text) noexcept {
  if (text.data == nullptr) return {};
  return {text.data, text.size == 0 ? std::strlen(text.data) : text.size};
}
[[nodiscard]] inline std::string_view text_or_empty(const char* text) noexcept {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

// Structs whose first field is their size.

/// The size of a struct in the first version of the library that had it. When fields are appended, after
/// the padding at its end, the old size becomes a specialization.
template <class T>
inline constexpr std::size_t first_size = sizeof(T);

/// `bad_state` for a size that is smaller than that of the first version.
[[nodiscard]] Result<void> check_size(std::size_t size, std::size_t first, std::string_view name);
/// `bad_state` if a byte after the fields that this library knows is not 0.
[[nodiscard]] Result<void> check_later_fields(const void* given, std::size_t size, std::size_t known,
                                              std::string_view name);

/// The struct with fields that the caller does not know at their defaults. NULL has all of them.
template <class T>
[[nodiscard]] Result<T> read_struct(const T* given, std::string_view name) {
  T known{};
  if (given == nullptr) return known;
  HT_TRY(check_size(given->size, first_size<T>, name));
  HT_TRY(check_later_fields(given, given->size, sizeof(T), name));
  std::memcpy(&known, given, std::min(given->size, sizeof(T)));
  return known;
}

/// `bad_state` unless `into` is a struct that the library can fill in.
template <class T>
[[nodiscard]] Result<void> check_output(const T* into, std::string_view name) {
  HT_TRY(require(into != nullptr, name));
  return check_size(into->size, first_size<T>, name);
}

/// Writes the fields that the caller knows; fields of later versions become 0.
template <class T>
void write_struct(T* into, T value) noexcept {
  const std::size_t size = into->size;
  value.size = size;
  std::memcpy(into, &value, std::min(size, sizeof(T)));
  if (size > sizeof(T)) std::memset(reinterpret_cast<std::byte*>(into) + sizeof(T), 0, size - sizeof(T));
}

/// The memory of texts and arrays that belong to one object. Functions throw std::bad_alloc.
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
  [[nodiscard]] auto* each(const Range& range, const Convert& convert) {
    using Item = std::remove_cvref_t<decltype(convert(*std::begin(range)))>;
    auto* const items = array<Item>(std::size(range));
    std::ranges::transform(range, items, convert);
    return items;
  }

 private:
  std::pmr::monotonic_buffer_resource resource_;
};

/// Lies before each result, so that `ht_result_free` finds its memory.
struct ResultPrefix {
  alignas(16) Memory* memory = nullptr;
};

/// A result that `ht_result_free` releases: a C struct, and its texts and arrays.
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
