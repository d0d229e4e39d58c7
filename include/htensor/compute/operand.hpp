// Requirements of operations on their operands.
//
// A neural network operation calculates in F32 or F64, the dtype D of its input. Its weights may be stored in
// another dtype or encoding whose values D holds: BF16, Q8_0, or a lazy view `as<F32>(w)` on the host; on
// other devices a dense dtype that the device supports.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/tensor/tensor.hpp>
#include <htensor/values/cast.hpp>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

/// The device calculates an operation of a slice in D: by host kernels if the host can read its memory, else
/// by its own function.
template <class Dev, class Slice, class D, class Op, class Out, class... In>
concept Calculates = Computes<Dev, Slice, D> && placement::CanAllocate<Dev> &&
                     ((HostAccessible<Dev> && Computes<Host, Slice, D>) || HasOperation<Dev, Op, Out, In...>);

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

/// Weights that an operation in D reads on the host: a tensor, a tensor of blocks or a lazy view whose values
/// D holds.
template <class W, class D>
concept HostWeightOf =
    (detail::is_as_view<W> || detail::is_block_tensor<W> || detail::is_dense_tensor<W>) &&
    ReadableAs<detail::StoredOf<W>, D> && placement::CanAllocate<typename detail::StoredOf<W>::Device> &&
    (!detail::is_as_view<W> || std::same_as<typename W::DType, D>);

/// The same on a device whose memory the host cannot read: dense weights on that device.
template <class W, class D, class Dev>
concept DeviceWeightOf = detail::is_dense_tensor<W> && std::same_as<typename W::Device, Dev> &&
                         LosslessTo<typename W::DType, D> && Computes<Dev, slice::Core, typename W::DType>;

/// Weights of an operation in D on a device.
template <class W, class D, class Dev>
concept WeightOf = (HostAccessible<Dev> && HostWeightOf<W, std::remove_const_t<D>>) ||
                   (!HostAccessible<Dev> && DeviceWeightOf<W, std::remove_const_t<D>, Dev>);

namespace detail {

/// Whether extents of static shapes may be equal; `dynamic` matches any extent.
consteval bool extents_may_match(std::int64_t a, std::int64_t b) {
  return a == dynamic || b == dynamic || a == b;
}

/// Elements of F32 or F64 at any strides in memory of this process. Extents and strides belong to the caller.
template <class T>
struct HostView {
  const T* data;
  layout::Extents extents;
  layout::Extents strides;
};

template <class D, class S, class Dev>
using Like = Tensor<std::remove_const_t<D>, S, Dev>;

/// A new tensor that the device calculates by its own function.
template <class Out, class Op, class... In>
[[nodiscard]] Result<Out> run_on_device(const Op& op, typename Out::ShapeType shape,
                                        const ComputeOptions& options, const In&... in) {
  auto result = HT_TRY(Out::zeros(shape, options));
  HT_TRY(Out::Device::run(op, options, result, in...));
  return result;
}

/// Contiguous elements of D with the values of a weight: the stored elements if they have that form, else a
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
