// Which dtype a C++ type is the element of.
#pragma once

#include <complex>
#include <concepts>
#include <htensor/dtype/dtypes.hpp>
#include <type_traits>

namespace ht::inline v1 {

namespace detail {

template <class T>
struct DTypeOf {};
template <>
struct DTypeOf<float> {
  using type = F32;
};
template <>
struct DTypeOf<double> {
  using type = F64;
};
template <>
struct DTypeOf<std::complex<float>> {
  using type = C64;
};
template <>
struct DTypeOf<Boolean> {
  using type = Bool;
};
template <class T>
  requires std::integral<T> && (!std::same_as<T, bool>) && (sizeof(T) <= 8)
struct DTypeOf<T> {
  static constexpr int bits = static_cast<int>(8 * sizeof(T));
  using type = std::conditional_t<std::is_signed_v<T>, Int<bits>, UInt<bits>>;
};
template <class D>
struct DTypeOf<SmallFloat<D>> {
  using type = D;
};
template <class D>
struct DTypeOf<SmallInt<D>> {
  using type = D;
};

template <class T>
concept NativeFloat = std::same_as<T, float> || std::same_as<T, double>;

template <class T>
concept NativeInt = std::integral<T> && !std::same_as<T, bool>;

}  // namespace detail

/// The dtype whose element a C++ type is: `float` is F32's.
template <class T>
using DTypeOf = typename detail::DTypeOf<T>::type;

}  // namespace ht::inline v1
