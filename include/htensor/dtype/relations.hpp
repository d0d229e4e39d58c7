// Which dtypes hold all values of other dtypes: derived from their `NumberFacts`, not from a table.
//
// LosslessTo is a partial order but not a lattice: I16, F16 and BF16 each hold U8 and I8, but not each other.
// So `Common` takes all dtypes at once: the result of pairwise promotion would depend on the order.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <htensor/dtype/dtypes.hpp>
#include <tuple>
#include <type_traits>

namespace ht::inline v1 {

template <class T>
concept IsFloating = IsNumber<T> && T::number.kind == NumberKind::floating;

template <class T>
concept IsIntegral = IsNumber<T> && T::number.kind == NumberKind::integer;

/// A dtype with addition, subtraction and multiplication: integers, floating-point and complex numbers.
template <class T>
concept Multipliable = IsNumber<T> && T::number.kind != NumberKind::boolean;

namespace detail {

template <class A, class B>
consteval bool every_value_of_first_in_second() {
  if constexpr (std::same_as<A, B>) {
    return true;
  } else if constexpr (IsNumber<A> && IsNumber<B>) {
    return holds_every_value(B::number, A::number);
  } else {
    return false;
  }
}

}  // namespace detail

/// Every finite value of A is a value of B, in any families. `cast<B>` and `as<B>` require this.
template <class A, class B>
concept LosslessTo = IsDType<A> && IsDType<B> && detail::every_value_of_first_in_second<A, B>();

template <class A, class B>
concept SameFamily = IsDType<A> && IsDType<B> && std::same_as<typename A::Family, typename B::Family>;

/// LosslessTo within one family. `upcast<B>` and implicit conversion of scalars require this.
template <class A, class B>
concept UpcastableTo = SameFamily<A, B> && LosslessTo<A, B>;

namespace detail {

template <class D, class... Wanted>
inline constexpr bool holds_all = (LosslessTo<Wanted, D> && ...);

// The first given dtype that holds all others, possibly a user's dtype; else the first of the list.
template <class... Wanted, class... Listed>
consteval auto common_of(DTypeList<Listed...>) {
  constexpr std::array holds{holds_all<Wanted, Wanted...>..., holds_all<Listed, Wanted...>...};
  constexpr auto first = static_cast<std::size_t>(std::ranges::find(holds, true) - holds.begin());
  if constexpr (first < holds.size()) {
    return std::type_identity<std::tuple_element_t<first, std::tuple<Wanted..., Listed...>>>{};
  }
}

template <class... Ds>
using CommonAnswer = decltype(common_of<Ds...>(AllDTypes{}));

}  // namespace detail

/// A dtype exists that holds every value of all given dtypes. I64 and F64 have no common dtype.
template <class... Ds>
concept HaveCommon = sizeof...(Ds) > 0 && (IsDType<Ds> && ...) &&
                     !std::is_void_v<detail::CommonAnswer<Ds...>>;

/// The first dtype that holds every value of all given dtypes.
template <class... Ds>
  requires HaveCommon<Ds...>
using Common = typename detail::CommonAnswer<Ds...>::type;

}  // namespace ht::inline v1
