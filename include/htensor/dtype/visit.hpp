// Conversion of a tag from a file to a static type. This is the only switch over dtypes.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace ht::inline v1 {

/// The properties of a dtype that are needed at run time.
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

/// The dtype with this tag, of the library or of `users`. nullopt if the tag is unknown.
[[nodiscard]] std::optional<DTypeInfo> find_dtype(DTypeTag tag,
                                                  std::span<const DTypeInfo> users = {}) noexcept;

/// The dtype with this name, spelled as in safetensors: "F32", "F8_E4M3", "BOOL".
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

/// Calls `f(D{})` with the dtype of the tag, from the library or `Extra`. Returns the value of f as a Result;
/// a Result from f is returned unchanged. `bad_dtype` if the tag is unknown.
template <IsDType... Extra, class F>
[[nodiscard]] auto visit_dtype(DTypeTag tag, F&& f, SourceLine where = SourceLine::here()) {
  return detail::visit_among<Extra...>(AllDTypes{}, tag, f, where);
}

}  // namespace ht::inline v1
