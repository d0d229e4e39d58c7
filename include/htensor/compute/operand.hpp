// What operations of networks on the host ask of their operands.
//
// An operation calculates in F32 or F64, the dtype D of its input. Its weights may be stored in another dtype
// or encoding whose values D holds: BF16, Q8_0, or a lazy view `as<F32>(w)`.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/tensor/tensor.hpp>
#include <htensor/values/cast.hpp>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

/// The dtypes that the host's kernels of networks calculate in.
template <class D>
concept KernelFloat = std::same_as<std::remove_const_t<D>, F32> || std::same_as<std::remove_const_t<D>, F64>;

/// The host's kernels calculate the operations of a slice in D, in memory of a device that lists the slice.
template <class Dev, class Slice, class D>
concept ComputesOnHost =
    Computes<Dev, Slice, D> && KernelFloat<D> && HostAccessible<Dev> && placement::CanAllocate<Dev>;

namespace detail {

template <class T>
inline constexpr bool is_as_view = false;
template <class To, class T>
inline constexpr bool is_as_view<AsView<To, T>> = true;

template <class W>
[[nodiscard]] const auto& stored_of(const W& weight) noexcept {
  if constexpr (is_as_view<W>) {
    return weight.stored();
  } else {
    return weight;
  }
}

template <class W>
using StoredOf = std::remove_cvref_t<decltype(stored_of(std::declval<const W&>()))>;

}  // namespace detail

/// Weights of an operation in D: a tensor, a tensor of blocks or a lazy view whose values D holds.
template <class W, class D>
concept WeightOf = (detail::is_as_view<W> || detail::is_block_tensor<W> || detail::is_dense_tensor<W>) &&
                   ReadableAs<detail::StoredOf<W>, std::remove_const_t<D>> &&
                   placement::CanAllocate<typename detail::StoredOf<W>::Device>;

namespace detail {

/// Elements of F32 or F64 in memory of this process. Extents and strides belong to the caller.
template <class T>
struct HostView {
  const T* data;
  layout::Extents extents;
  layout::Extents strides;
};

/// Contiguous elements of D with the values of a weight: the stored ones where they are like that, else a
/// converted copy.
template <class D, class W>
[[nodiscard]] auto dense_weight(const W& weight)
    -> Result<Tensor<const D, typename W::ShapeType, typename StoredOf<W>::Device>> {
  const auto& stored = stored_of(weight);
  if constexpr (std::same_as<typename StoredOf<W>::DType, D> && !is_block_tensor<StoredOf<W>>) {
    if (stored.is_contiguous()) return stored;
    return HT_TRY(stored.copy());
  } else {
    return HT_TRY(cast<D>(stored));
  }
}

}  // namespace detail

}  // namespace ht::inline v1
