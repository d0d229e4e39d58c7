// From a file's runtime tag to a static type: the one door, and the only switch over dtypes.
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

/// What has to be known of a dtype at run time.
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

/// The facts behind a tag: the library's, or one of `users`.
[[nodiscard]] std::optional<DTypeInfo> find_dtype(DTypeTag tag,
                                                  std::span<const DTypeInfo> users = {}) noexcept;

/// The dtype of that name, spelled as in safetensors: "F32", "F8_E4M3", "BOOL".
[[nodiscard]] std::optional<DTypeInfo> find_dtype(std::string_view name,
                                                  std::span<const DTypeInfo> users = {}) noexcept;

/// `bad_dtype`, with what the tag may be and what to do.
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

/// Calls `f(D{})` with the dtype behind the tag, one of the library's or of `Extra`. The answer is a
/// Result of what f returns (a Result from f is handed through), or `bad_dtype`.
template <IsDType... Extra, class F>
[[nodiscard]] auto visit_dtype(DTypeTag tag, F&& f, SourceLine where = SourceLine::here()) {
  return detail::visit_among<Extra...>(AllDTypes{}, tag, f, where);
}

}  // namespace ht::inline v1
