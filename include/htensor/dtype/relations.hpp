// Relations between dtypes: which dtype holds all values of another, derived from their `NumberFacts`. Also
// `visit_dtype`, which converts a tag to a static type.
//
//   static_assert(ht::LosslessTo<ht::BF16, ht::F32> && !ht::LosslessTo<ht::F32, ht::BF16>);
//   static_assert(std::same_as<ht::Common<ht::F16, ht::BF16>, ht::F32>);
//   const auto bits = HT_TRY(ht::visit_dtype(tag, [](auto dtype) { return dtype.bits; }));
//
// LosslessTo is a partial order but not a lattice: I16, F16 and BF16 each hold U8 and I8, but not each other.
// So `Common` takes all dtypes at once: the result of pairwise promotion would depend on the order.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace ht::inline v1 {

template <class T>
concept IsFloating = IsNumber<T> && T::number.kind == NumberFacts::Kind::floating;

template <class T>
concept IsIntegral = IsNumber<T> && T::number.kind == NumberFacts::Kind::integer;

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

/// Every finite value of A is a value of B, whatever their families. `cast<B>` and `as<B>` require this.
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

// Conversion of a tag from a file to a static type. This is the only switch over dtypes.

/// A dtype at run time. `name` is a view of `D::name`.
struct DTypeInfo {
  DTypeTag tag = DTypeTag::invalid;
  std::string_view name;
  int bits = 0;

  friend bool operator==(const DTypeInfo&, const DTypeInfo&) = default;
};

template <IsDType D>
[[nodiscard]] constexpr DTypeInfo dtype_info() noexcept {
  return {D::tag, D::name, D::bits};
}

/// The dtype with this tag, among those of the library and `users`, the user-defined dtypes. nullopt if the
/// tag is unknown.
[[nodiscard]] std::optional<DTypeInfo> find_dtype(DTypeTag tag,
                                                  std::span<const DTypeInfo> users = {}) noexcept;

/// The same by name, spelled as in safetensors: "F32", "F8_E4M3", "BOOL".
[[nodiscard]] std::optional<DTypeInfo> find_dtype(std::string_view name,
                                                  std::span<const DTypeInfo> users = {}) noexcept;

/// The Error `bad_dtype` for a tag, with a hint.
[[nodiscard]] Error unknown_dtype(DTypeTag tag, SourceLine where = SourceLine::here());

namespace detail {

template <class D, class F, class Answer>
bool visit_if(DTypeTag tag, F& f, std::optional<Answer>& answer) {
  if (D::tag != tag) return false;
  if constexpr (std::is_void_v<std::invoke_result_t<F&, D>>) {
    f(D{});
    answer.emplace();
  } else {
    answer.emplace(f(D{}));
  }
  return true;
}

template <class... Extra, class... Ds, class F>
auto visit_among(DTypeList<Ds...>, DTypeTag tag, F& f, SourceLine where) {
  using Returned = std::common_type_t<std::invoke_result_t<F&, Ds>..., std::invoke_result_t<F&, Extra>...>;
  using Answer = std::conditional_t<is_result<Returned>, Returned, Result<Returned>>;
  std::optional<Answer> answer;
  if ((visit_if<Ds>(tag, f, answer) || ...) || (visit_if<Extra>(tag, f, answer) || ...))
    return *std::move(answer);
  return Answer(fail(unknown_dtype(tag, where)));
}

}  // namespace detail

/// Calls `f(D{})` with the dtype of the tag: one of the library or of `Extra`, the user-defined dtypes.
/// Returns the value of `f` as a Result; if `f` returns a Result, returns that. `bad_dtype` if the tag is
/// unknown.
template <IsDType... Extra, class F>
[[nodiscard]] auto visit_dtype(DTypeTag tag, F&& f, SourceLine where = SourceLine::here()) {
  return detail::visit_among<Extra...>(AllDTypes{}, tag, f, where);
}

}  // namespace ht::inline v1
