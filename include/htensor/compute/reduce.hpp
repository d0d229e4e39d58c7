// The sum and the largest element of a tensor.
//
//   const float total = HT_TRY(ht::sum(x));
//   const float largest = HT_TRY(ht::max(x));
//
// x has any strides and is on any device that lists slice::Core; the result is on the host. An unreadable
// mapped page is an Error.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <htensor/device/transfer.hpp>
#include <htensor/dtype/relations.hpp>
#include <htensor/tensor/tensor.hpp>
#include <type_traits>

namespace ht::inline v1 {

/// The dtype of a sum: F64 for F64, F32 for other floating-point numbers, I64 or U64 for integers.
template <class D>
using SumOf = std::conditional_t<
    std::same_as<D, F64>, F64,
    std::conditional_t<IsFloating<D>, F32, std::conditional_t<LosslessTo<D, U64>, U64, I64>>>;

/// The device adds or compares elements of D: by a host loop, or by its own function.
template <class Dev, class Op, class D>
concept ReducesBy = Computes<Dev, slice::Core, D> && (IsFloating<D> || IsIntegral<D>) &&
                    (HostAccessible<Dev> ||
                     (Transfers<Dev> && Compatible<Dev, SumOf<D>> &&
                      HasOperation<Dev, Op, Tensor<SumOf<D>, Rank<0>, Dev>, Tensor<const D, Rank<1>, Dev>>));

namespace detail {

/// `bad_shape` for a tensor without elements.
[[nodiscard]] Result<void> check_has_element(layout::Extents extents);

/// Calls `visit(element as T)` for each element.
template <class T, class D, class S, class Dev, class Visit>
[[nodiscard]] Result<void> for_each_number(const Tensor<D, S, Dev>& x, const Visit& visit) {
  const auto extents = x.shape().extents();
  const auto touched = HT_TRY(placement::touched_bytes<D>(x.data(), extents, x.strides()));
  return guarded(touched, [&] {
    const auto visit_run = [&](const Run<1>& run) {
      const auto from = x.data() + run.offsets[0];
      for (std::int64_t i = 0; i < run.count; ++i) {
        const auto element = static_cast<typename std::remove_const_t<D>::Element>(from[i * run.strides[0]]);
        visit(static_cast<T>(element));
      }
    };
    for_each_run(extents, visit_run, x.strides());
  });
}

template <class Op, class D, class S, class Dev>
[[nodiscard]] auto reduce_on_device(const Tensor<D, S, Dev>& x, const ComputeOptions& options)
    -> Result<typename SumOf<std::remove_const_t<D>>::Element> {
  using Out = Tensor<SumOf<std::remove_const_t<D>>, Rank<0>, Dev>;
  auto result = HT_TRY(Out::zeros({}, options));
  HT_TRY(Dev::run(Op{}, options, result, x));
  const auto here = HT_TRY(to_host(result, options));
  return here();
}

}  // namespace detail

/// The sum of all elements, as a number of `SumOf<D>`; integers wrap around. The host adds floating-point
/// numbers in double and rounds once: the error of n elements is at most u |sum| + n 2^-53 Σ|x|. The bound of
/// OpenCL devices is in htensor/device/opencl.hpp.
template <class D, class S, class Dev>
  requires ReducesBy<Dev, operation::Sum, std::remove_const_t<D>>
[[nodiscard]] auto sum(const Tensor<D, S, Dev>& x, const ComputeOptions& options = {})
    -> Result<typename SumOf<std::remove_const_t<D>>::Element> {
  using Element = typename SumOf<std::remove_const_t<D>>::Element;
  if constexpr (HostAccessible<Dev>) {
    // Unsigned, because signed overflow is undefined.
    using In = std::conditional_t<IsFloating<std::remove_const_t<D>>, double, std::uint64_t>;
    In all{};
    HT_TRY(detail::for_each_number<Element>(x, [&](Element number) { all += static_cast<In>(number); }));
    return static_cast<Element>(all);
  } else {
    return detail::reduce_on_device<operation::Sum>(x, options);
  }
}

/// The largest element, or NaN if there is a NaN. `bad_shape` for a tensor without elements.
template <class D, class S, class Dev>
  requires ReducesBy<Dev, operation::Max, std::remove_const_t<D>>
[[nodiscard]] auto max(const Tensor<D, S, Dev>& x, const ComputeOptions& options = {})
    -> Result<typename SumOf<std::remove_const_t<D>>::Element> {
  using Element = typename SumOf<std::remove_const_t<D>>::Element;
  HT_TRY(detail::check_has_element(x.shape().extents()));
  if constexpr (HostAccessible<Dev>) {
    bool is_first = true;
    Element largest{};
    HT_TRY(detail::for_each_number<Element>(x, [&](Element number) {
      // A NaN is never exceeded.
      if (is_first || number > largest || std::isnan(static_cast<double>(number))) largest = number;
      is_first = false;
    }));
    return largest;
  } else {
    return detail::reduce_on_device<operation::Max>(x, options);
  }
}

}  // namespace ht::inline v1
