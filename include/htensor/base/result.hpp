// `Result<T>` is a value or an Error. `HT_TRY` unwraps a Result or returns its Error to the caller.
//
//   ht::Result<int> twice(std::string_view text) {
//     const auto number = HT_TRY(parse(text));
//     HT_TRY(check(number));  // a Result<void>
//     return 2 * number;
//   }
#pragma once

#include <htensor/base/error.hpp>
#include <new>
#include <stdexcept>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

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

template <class T>
constexpr T take_value(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// An lvalue Result keeps its value.
template <class T>
constexpr T take_value(const Result<T>& result) {
  if constexpr (!std::is_void_v<T>) return *result;
}

}  // namespace detail
}  // namespace ht::inline v1

// Two macros, so that __COUNTER__ is expanded before it is pasted: nested uses must not shadow each other.
#define HT_INTERNAL_TRY(name, ...)                                                          \
  __extension__({                                                                           \
    auto&& name = (__VA_ARGS__);                                                            \
    if (!name.has_value()) return ::ht::fail(::std::forward<decltype(name)>(name).error()); \
    ::ht::detail::take_value(::std::forward<decltype(name)>(name));                         \
  })
#define HT_INTERNAL_PASTE_(a, b) a##b
#define HT_INTERNAL_PASTE(a, b) HT_INTERNAL_PASTE_(a, b)

/// Yields the value of a Result, or returns its Error from the enclosing function. Use one per statement:
/// g++ 12 does not destroy the preceding members if HT_TRY returns inside `Aggregate{member, HT_TRY(…)}`.
#define HT_TRY(...) HT_INTERNAL_TRY(HT_INTERNAL_PASTE(ht_try_, __COUNTER__), __VA_ARGS__)
