// One element of a dtype that C++ has no type for: F16, BF16, the 8-, 6- and 4-bit ones, and BOOL.
//
// They are the stored bits and nothing else, so arrays of them can be laid over a mapped file. They
// convert implicitly exactly where UpcastableTo holds (F16 to float), explicitly to float and double
// everywhere else (BF16 to float), by the rules of float_code.hpp. To calculate, convert first.
#pragma once

#include <htensor/dtype/boolean.hpp>
#include <htensor/dtype/small_float.hpp>
#include <htensor/dtype/small_int.hpp>
#include <type_traits>

namespace ht::inline v1 {

template <class T>
inline constexpr bool is_plain_byte_type = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>;

static_assert(sizeof(SmallFloat<F16>) == 2 && sizeof(SmallFloat<BF16>) == 2);
static_assert(sizeof(SmallFloat<F8_E4M3>) == 1 && sizeof(SmallFloat<F4>) == 1);
static_assert(sizeof(SmallInt<I4>) == 1 && sizeof(Boolean) == 1 && sizeof(C64::Element) == 8);
static_assert(is_plain_byte_type<SmallFloat<BF16>> && is_plain_byte_type<SmallInt<I4>> &&
              is_plain_byte_type<Boolean>);

}  // namespace ht::inline v1
