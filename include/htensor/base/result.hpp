// Result and Error. A `Result<T>` is a value or an Error. `HT_TRY` unwraps a Result or returns its Error from
// the enclosing function.
//
//   ht::Result<int> twice(std::string_view text) {
//     const auto number = HT_TRY(parse(text));
//     HT_TRY(check(number));  // a Result<void>
//     return 2 * number;
//   }
//
//   const auto found = twice("7");
//   if (!found) log(found.error().code(), ht::to_string(found.error()));
//   ht::Error error(ht::ErrorCode::bad_name, "name_within_limit", "name has 80 bytes but the limit is 64");
//   return ht::fail(std::move(error).at_path("m.ht"));
//
// Ownership: an Error owns its texts, except `rule`, which is a string literal. The views that `message`,
// `hint`, `path` and `tensor` return are valid until the Error is changed, moved from or destroyed. A Result
// owns its value or its Error. The compiler warns if a caller ignores the Result of a function.
//
// Threads: an Error and a Result are values without shared state. Many threads may read a const object at
// once.
//
// Functions of the library report failures by a Result and throw no exceptions of their own. `out_of_memory`
// is an Error like every other.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

// Errors: a code for programs, and a message and a hint for people.
//
// An Error has one code, which programs switch on, and one rule, the name of the violated rule, which does
// not change between releases. The other members are for people. An Error is a value: copies are independent,
// and many threads may read a const Error.

namespace ht::inline v1 {

/// One code per kind of failure; `describe` has a sentence for each. Values never change, so that other
/// languages can use them: a new code takes the next value. The C API uses 0 for success.
enum class ErrorCode : std::uint8_t {
  // The system failed, or the file is not usable: `cause` often has the error code of the system call.
  open_failed = 1,
  read_failed = 2,
  map_failed = 3,
  unmap_failed = 4,
  write_failed = 5,
  no_space = 6,
  already_exists = 7,
  not_regular_file = 8,
  changed_underfoot = 9,
  // The file ends too early or its header is invalid. `offset` has the position if it is known. Trying again
  // with the same file fails again.
  truncated = 10,
  bad_magic = 11,
  bad_version = 12,
  bad_header = 13,
  header_too_large = 14,
  bad_utf8 = 15,
  duplicate_key = 16,
  duplicate_tensor = 17,
  bad_name = 18,
  // The elements have a type that is unknown, or that this operation cannot read or write.
  bad_dtype = 19,
  unsupported_encoding = 20,
  // Shapes, sizes and positions that are invalid or contradict each other, in a file or in arguments.
  bad_shape = 21,
  size_overflow = 22,
  size_mismatch = 23,
  bad_offset = 24,
  overlap = 25,
  gap = 26,
  misaligned = 27,
  trailing_bytes = 28,
  // Models in several files.
  missing_shard = 29,
  stale_index = 30,
  path_escapes = 31,
  // The caller asked for a tensor, a type, a shape or an index that the model or the tensor does not have.
  not_found = 32,
  dtype_mismatch = 33,
  shape_mismatch = 34,
  out_of_bounds = 35,
  // Seals and their checks.
  checksum_mismatch = 36,
  not_sealed = 37,
  bad_seal = 38,
  // The request itself: the result would lose values, types or metadata, or the memory or the file is in use.
  would_lose = 39,
  in_use = 40,
  stale_handle = 41,  // not used by this version
  // An argument is invalid, or the state of an object does not allow the operation.
  bad_state = 42,
  // Limits of memory and of the platform, and failures of devices and of the network. Trying again later may
  // succeed, except after an `unsupported_` code.
  budget_too_small = 43,
  out_of_memory = 44,
  unsupported_platform = 45,
  unsupported_strategy = 46,
  device_unavailable = 47,
  network_failed = 48,
  access_denied = 49,
  // A stop request of the caller, and errors of the library itself.
  cancelled = 50,
  internal = 51,
};

/// Codes have the values 1 to `error_code_count`.
inline constexpr std::size_t error_code_count = 51;

/// The name of the code, for instance "size_overflow". The text is a literal. A number that is not a code
/// gives "internal".
[[nodiscard]] std::string_view to_string(ErrorCode code) noexcept;

/// The meaning of the code in one sentence.
[[nodiscard]] std::string_view describe(ErrorCode code) noexcept;

/// A place in the caller's source.
struct SourceLine {
  const char* file = "";
  int line = 0;

  /// As the default argument of a function, the place of the call of that function.
  [[nodiscard]] static constexpr SourceLine here(const char* file = __builtin_FILE(),
                                                 int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// The reason of a failure. Two words in size; the texts are in memory that the Error owns. Move an Error
/// where possible: a copy allocates memory. If out of memory, the copy has the code, and other members may be
/// empty.
class [[nodiscard]] Error {
 public:
  /// An Error with a code only. Allocates no memory, so that `out_of_memory` can always be returned.
  explicit Error(ErrorCode code) noexcept : code_(code) {}

  /// `rule` must outlive the Error and its copies: pass a string literal. Never fails: if out of memory, the
  /// Error has its code, and other members may be empty.
  Error(ErrorCode code, std::string_view rule, std::string message,
        SourceLine where = SourceLine::here()) noexcept;

  Error(const Error& other) noexcept;
  Error& operator=(const Error& other) noexcept;
  Error(Error&& other) noexcept : code_(other.code_), details_(std::exchange(other.details_, nullptr)) {}
  Error& operator=(Error&& other) noexcept;
  ~Error() {
    if (details_ != nullptr) delete_details();
  }

  /// The kind of failure, on which programs switch.
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// The name of the violated rule, for instance "header_is_complete"; the name of the code if there is no
  /// rule.
  [[nodiscard]] std::string_view rule() const noexcept;
  /// The description of the error, without the path, which `to_string` adds. Never empty: without a message
  /// of its own, the sentence of `describe`. At most 2000 bytes, then "…".
  [[nodiscard]] std::string_view message() const noexcept;
  /// How to fix the error; may be empty.
  [[nodiscard]] std::string_view hint() const noexcept;
  /// The path of the file, as the caller passed it; empty if the error concerns no file.
  [[nodiscard]] std::string_view path() const noexcept;
  /// The name of the tensor, truncated to 2000 bytes; empty if the error concerns no tensor.
  [[nodiscard]] std::string_view tensor() const noexcept;
  /// The offset in the file where the error starts.
  [[nodiscard]] std::optional<std::uint64_t> offset() const noexcept;
  /// The error code of the failed system call, if any.
  [[nodiscard]] std::error_code cause() const noexcept;
  /// The source line that created the Error. An empty file name if it is unknown.
  [[nodiscard]] SourceLine where() const noexcept;

  // Each function sets one member and returns the Error: `Error(…).at_path(p).with_hint(h)`.
  Error&& with_hint(std::string_view hint) && noexcept;
  Error&& at_path(std::string_view path) && noexcept;
  Error&& at_tensor(std::string_view tensor) && noexcept;
  Error&& at_offset(std::uint64_t offset) && noexcept;
  Error&& with_cause(std::error_code cause) && noexcept;

 private:
  struct Details;
  void delete_details() noexcept;
  /// Applies a change to the details. Does nothing if out of memory.
  template <class Change>
  void change(Change change) noexcept;

  ErrorCode code_;
  // Owned. A pointer, so that the Error in a Result takes only two words; a plain one, because every file
  // that includes this header would instantiate std::unique_ptr.
  Details* details_ = nullptr;
};

/// One line: `model.ht: data ends at byte 640 but the file has 600 bytes [truncated]`.
[[nodiscard]] std::string to_string(const Error& error);

static_assert(sizeof(Error) == 2 * sizeof(void*));

/// A value of type T or an Error. `if (result)` tests for a value, `*result` is the value, `result.error()`
/// the Error. `*result` without a value and `error()` without an Error are undefined behaviour; `value()`
/// throws instead. A `Result<void>` without an Error means success. Functions that return a Result usually
/// unwrap another one by `HT_TRY`.
template <class T>
using Result = tl::expected<T, Error>;

/// Wraps an Error for returning it: `return fail(Error(…))`.
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

/// Constructs the Error in place: `return fail(ErrorCode::not_found, "name_is_known", "…")`.
[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string_view rule, std::string message,
                                                SourceLine where = SourceLine::here()) {
  return fail(Error(code, rule, std::move(message), where));
}

/// Whether T is a Result.
template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<Result<T>> = true;

/// Runs `body`, which returns a Result, and converts a failed allocation to `out_of_memory`: functions of the
/// library throw no exceptions of their own. Other exceptions, such as from a user's callback, propagate.
template <class Body>
[[nodiscard]] auto without_bad_alloc(Body&& body) -> std::invoke_result_t<Body> {
  static_assert(is_result<std::invoke_result_t<Body>>);
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    return fail(Error(ErrorCode::out_of_memory));
  } catch (const std::length_error&) {  // more than a container could ever hold
    return fail(Error(ErrorCode::out_of_memory));
  }
}

namespace detail {

// Moves the value out of a temporary Result.
template <class T>
constexpr T take_value(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// Copies the value of an lvalue Result.
template <class T>
constexpr T take_value(const Result<T>& result) {
  if constexpr (!std::is_void_v<T>) return *result;
}

}  // namespace detail
}  // namespace ht::inline v1

#define HT_INTERNAL_TRY(name, ...)                                                          \
  __extension__({                                                                           \
    auto&& name = (__VA_ARGS__);                                                            \
    if (!name.has_value()) return ::ht::fail(::std::forward<decltype(name)>(name).error()); \
    ::ht::detail::take_value(::std::forward<decltype(name)>(name));                         \
  })
// Two macros, so that __COUNTER__ is expanded before it is pasted: nested uses must not shadow each other.
#define HT_INTERNAL_PASTE_(a, b) a##b
#define HT_INTERNAL_PASTE(a, b) HT_INTERNAL_PASTE_(a, b)

/// Yields the value of a Result, or returns its Error from the enclosing function. In a braced initializer,
/// only the first member may be an HT_TRY: g++ 12 does not destroy the preceding members if HT_TRY returns
/// inside `Aggregate{member, HT_TRY(…)}`. Arguments of calls may be HT_TRYs in any position.
///
/// The value of an rvalue Result is moved, the value of an lvalue is copied. In a function that does not
/// return a Result, test the Result instead. HT_TRY uses a statement expression, which g++ and clang have.
#define HT_TRY(...) HT_INTERNAL_TRY(HT_INTERNAL_PASTE(ht_try_, __COUNTER__), __VA_ARGS__)
