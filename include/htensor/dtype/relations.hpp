// Relations between dtypes: which dtype holds all values of another, derived from their `NumberFacts`. Also
// `visit_dtype`, which converts a tag to a static type.
//
//   static_assert(ht::LosslessTo<ht::BF16, ht::F32> && !ht::LosslessTo<ht::F32, ht::BF16>);
//   static_assert(std::same_as<ht::Common<ht::F16, ht::BF16>, ht::F32>);
//   const auto bits = HT_TRY(ht::visit_dtype(tag, [](auto dtype) { return dtype.bits; }));
//
// LosslessTo is a partial order but not a lattice: I16, F16 and BF16 each hold U8 and I8, but not each other.
// So `Common` takes all dtypes at once: the result of pairwise promotion would depend on the order.
//
// Ownership and threads: the concepts and `Common` exist at compile time only. A DTypeInfo is a value; its
// name is a string literal, or the literal of a user-defined dtype. The functions have no state, so many
// threads may call them at once; `visit_dtype` calls `f` on the calling thread.
//
// NaNs and infinities do not count in these relations. -0 counts: F8_E5M2 does not fit F8_E5M2FNUZ, which has
// no -0.
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

/// A floating-point dtype: F16 to F64, BF16, and the floats of 8 bits and fewer. Complex numbers do not
/// count.
template <class T>
concept IsFloating = IsNumber<T> && T::number.kind == NumberFacts::Kind::floating;

/// An integer dtype, signed or unsigned. `Bool` does not count.
template <class T>
concept IsIntegral = IsNumber<T> && T::number.kind == NumberFacts::Kind::integer;

namespace detail {

// A dtype without NumberFacts, such as a type of colours, holds only itself.
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

/// Both dtypes have the same family: F16 and F32, but not BF16 and F32.
template <class A, class B>
concept SameFamily = IsDType<A> && IsDType<B> && std::same_as<typename A::Family, typename B::Family>;

/// LosslessTo within one family. `upcast<B>` and implicit conversion of scalars require this. Every dtype
/// upcasts to itself. BF16 does not upcast to F32, which is another family: `cast` converts it.
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
using CommonResult = decltype(common_of<Ds...>(AllDTypes{}));

}  // namespace detail

/// A dtype exists that holds every value of all given dtypes. I64 and F64 have no common dtype. Constrain
/// templates with HaveCommon: `Common` does not compile without a common dtype.
template <class... Ds>
concept HaveCommon = sizeof...(Ds) > 0 && (IsDType<Ds> && ...) &&
                     !std::is_void_v<detail::CommonResult<Ds...>>;

/// The first dtype that holds every value of all given dtypes. The given dtypes come first, then the dtypes
/// of the library from narrow to wide. The order of the arguments matters only if two of them hold the same
/// values.
template <class... Ds>
  requires HaveCommon<Ds...>
using Common = typename detail::CommonResult<Ds...>::type;

// Dtypes at run time: look-up by tag or name. `visit_dtype` is the only way from a tag to a static type.

/// A dtype at run time. `name` is a view of `D::name`. A program with user-defined dtypes passes an array of
/// such objects to the functions that read files, so that the names and the widths are known there.
struct DTypeInfo {
  DTypeTag tag = DTypeTag::invalid;
  std::string_view name;
  int bits = 0;

  friend bool operator==(const DTypeInfo&, const DTypeInfo&) = default;
};

/// The properties of D as a value: `dtype_info<ht::BF16>().name` is "BF16".
template <IsDType D>
[[nodiscard]] constexpr DTypeInfo dtype_info() noexcept {
  return {D::tag, D::name, D::bits};
}

/// The dtype with this tag, among those of the library and `users`, the user-defined dtypes. nullopt if the
/// tag is unknown. A linear search of about 24 entries.
[[nodiscard]] std::optional<DTypeInfo> find_dtype(DTypeTag tag,
                                                  std::span<const DTypeInfo> users = {}) noexcept;

/// The same by name, spelled as in safetensors: "F32", "F8_E4M3", "BOOL". The spelling is exact: "f32" and
/// "float32" are unknown.
[[nodiscard]] std::optional<DTypeInfo> find_dtype(std::string_view name,
                                                  std::span<const DTypeInfo> users = {}) noexcept;

/// The Error `bad_dtype` for a tag, with a hint. `where` is the line that the Error reports; the caller's
/// line by default.
[[nodiscard]] Error unknown_dtype(DTypeTag tag, SourceLine where = SourceLine::here());

namespace detail {

template <class D, class F, class VisitResult>
bool visit_if(DTypeTag tag, F& f, std::optional<VisitResult>& result) {
  if (D::tag != tag) return false;
  if constexpr (std::is_void_v<std::invoke_result_t<F&, D>>) {
    f(D{});
    result.emplace();
  } else {
    result.emplace(f(D{}));
  }
  return true;
}

template <class... Extra, class... Ds, class F>
auto visit_among(DTypeList<Ds...>, DTypeTag tag, F& f, SourceLine where) {
  using Returned = std::common_type_t<std::invoke_result_t<F&, Ds>..., std::invoke_result_t<F&, Extra>...>;
  using VisitResult = std::conditional_t<is_result<Returned>, Returned, Result<Returned>>;
  std::optional<VisitResult> result;
  if ((visit_if<Ds>(tag, f, result) || ...) || (visit_if<Extra>(tag, f, result) || ...))
    return *std::move(result);
  return VisitResult(fail(unknown_dtype(tag, where)));
}

}  // namespace detail

/// Calls `f(D{})` with the dtype of the tag: one of the library or of `Extra`, the user-defined dtypes.
/// Returns the value of `f` as a Result; if `f` returns a Result, returns that. `bad_dtype` if the tag is
/// unknown.
///
/// `f` must accept every dtype of the library and of `Extra`, and is compiled once for each of them, so keep
/// its body small. All calls must return types with a common type, which is the type of the result:
///
///   const auto name = ht::visit_dtype(tag, [](auto dtype) { return dtype.name; });   // Result<string_view>
///   HT_TRY(ht::visit_dtype(tag, []<class D>(D) { count<D>(); }));                    // Result<void>
template <IsDType... Extra, class F>
[[nodiscard]] auto visit_dtype(DTypeTag tag, F&& f, SourceLine where = SourceLine::here()) {
  return detail::visit_among<Extra...>(AllDTypes{}, tag, f, where);
}

}  // namespace ht::inline v1
