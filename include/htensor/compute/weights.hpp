// Weights as operands: the types that operations take, and weights whose type is known at run time.
//
//   static_assert(ht::WeightOf<ht::Tensor<const ht::BF16, ht::Rank<2>>, ht::F32, ht::Host>);
//   static_assert(ht::WeightOf<ht::BlockTensor<ht::Q8_0, ht::Rank<2>>, ht::F32, ht::Host>);
//   static_assert(!ht::WeightOf<ht::Tensor<ht::F64, ht::Rank<2>>, ht::F32, ht::Host>);     // would lose
//   static_assert(ht::RuntimeWeights<ht::AnyTensor>);
//
//   template <class S, class W>                              // a layer for weights of any such type
//     requires ht::WeightOf<W, ht::F32, ht::Host>
//   auto layer(const ht::Tensor<ht::F32, S>& x, const W& weights) {
//     return ht::linear(x, weights);
//   }
//
// A neural network operation calculates in F32 or F64, the dtype D of its input. Its weights may be stored in
// another dtype or encoding whose values D holds: on the host BF16, Q8_0, or a lazy view `as<F32>(w)`; on
// other devices a dense dtype that the device supports.
//
// Ownership: an operation borrows its weights during the call and copies only the weights that it cannot read
// in place. A result never shares memory with weights.
//
// Threads: many threads may use the same weights at once. No operation writes to weights or caches them.
//
// Errors: types that do not fit are compile errors for typed weights, and `would_lose`, `shape_mismatch` or
// `unsupported_encoding` for weights whose type is known at run time. An unreadable mapped page is
// `read_failed`, `changed_underfoot`.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/tensor/tensor.hpp>
#include <htensor/values/cast.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ht::inline v1 {

/// The device can run `Op`, an operation of the group `Slice` (dtype/device.hpp), with calculations in D. A
/// device with a `run` for these types uses it. For other devices, kernels of the host run `Op`, if the host
/// can access the device's memory.
template <class Dev, class Slice, class D, class Op, class Out, class... In>
concept CanRun = Computes<Dev, Slice, D> && placement::CanAllocate<Dev> &&
                 ((HostAccessible<Dev> && Computes<Host, Slice, D>) || HasOperation<Dev, Op, Out, In...>);

namespace detail {

/// Whether T is a lazy view, as `as<F32>(w)` returns it.
template <class T>
inline constexpr bool is_as_view = false;
template <class To, class T>
inline constexpr bool is_as_view<AsView<To, T>> = true;

// Returns the tensor behind a lazy view, or the weight itself. The reference is valid as long as the weight.
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

/// Weights that an operation with calculations in D reads on the host: a tensor, a tensor of blocks or a lazy
/// view, whose values D holds. The element type of a lazy view must be D itself.
template <class W, class D>
concept HostWeightOf =
    (detail::is_as_view<W> || detail::is_block_tensor<W> || detail::is_dense_tensor<W>) &&
    ReadableAs<detail::StoredOf<W>, D> && placement::CanAllocate<typename detail::StoredOf<W>::Device> &&
    (!detail::is_as_view<W> || std::same_as<typename W::DType, D>);

/// Weights that an operation with calculations in D reads on a device whose memory the host cannot access:
/// dense weights on that device. Block tensors and lazy views stay on the host.
template <class W, class D, class Dev>
concept DeviceWeightOf = detail::is_dense_tensor<W> && std::same_as<typename W::Device, Dev> &&
                         LosslessTo<typename W::DType, D> && Computes<Dev, slice::Core, typename W::DType>;

/// Weights that an operation with calculations in D reads on the device Dev. Constrain generic layers with
/// this concept. `const D` counts as D.
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

/// The mutable tensor of the same dtype, shape and device.
template <class D, class S, class Dev>
using Like = Tensor<std::remove_const_t<D>, S, Dev>;

/// A new tensor that the device calculates by its own function. Its memory is new and zeroed before the call.
template <class Out, class Op, class... In>
[[nodiscard]] Result<Out> run_on_device(const Op& op, typename Out::ShapeType shape,
                                        const ComputeOptions& options, const In&... in) {
  auto result = HT_TRY(Out::zeros(shape, options));
  HT_TRY(Out::Device::run(op, options, result, in...));
  return result;
}

/// Contiguous elements of D with the values of a weight: the stored elements if they have that form, else a
/// converted copy. The result keeps the bytes alive. A norm or a bias is small, so a copy in each call costs
/// little.
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

// Weights whose type is known at run time, as operands: the AnyTensor of a Model.
//
//   const auto w = HT_TRY(model["blk.0.attn_q.weight"]);     // Q4_K, BF16, F32, …: as in the file
//   const auto x = HT_TRY(ht::embedding(HT_TRY(model["token_embd.weight"]), ids));
//   const auto q = HT_TRY(ht::linear(x, w));                 // same bits as the typed overload
//   const auto norm = HT_TRY(HT_TRY(model["output_norm.weight"]).cast<ht::F32>());   // small: copy it
//
// Row-major, little-endian weights are read in place. Other weights are cast to new memory in each call:
// splats, column-major and big-endian weights, dense weights that are not aligned for their dtype, and
// weights in a file that is not mapped as a whole or was opened with FaultPolicy::off. A program that uses
// such weights often should cast them once. `would_lose` if the dtype of the operation does not hold the
// values of the weights.

/// Stored weights whose type is known at run time. `view` returns stored bytes, in place or in a buffer;
/// `is_plain` is true if they are row-major and little-endian. `cast<D>` returns all elements as D in
/// row-major order, `slice(begin, end)` the rows [begin, end). AnyTensor satisfies it. All members must be
/// callable from many threads at once. Errors of `view`, `cast` and `slice` are returned unchanged.
template <class W>
concept RuntimeWeights = requires(const W& weights, std::int64_t row, std::vector<std::byte>& buffer) {
  { weights.name() } -> std::convertible_to<std::string_view>;
  { weights.type() } -> std::same_as<ElementType>;
  { weights.dims() } -> std::convertible_to<std::span<const std::int64_t>>;
  { weights.is_plain() } -> std::convertible_to<bool>;
  { weights.byte_size() } -> std::same_as<std::uint64_t>;
  { weights.view(std::uint64_t{}, std::uint64_t{}, buffer) } -> std::same_as<Result<Bytes>>;
  { weights.template cast<F32>() } -> std::same_as<Result<Tensor<F32, Rank<1>>>>;
  { weights.template cast<F64>() } -> std::same_as<Result<Tensor<F64, Rank<1>>>>;
  { weights.slice(row, row) } -> std::same_as<Result<W>>;
};

namespace detail {

/// A matrix of weights in memory, with the interface of a tensor that `linear` and `embedding` need.
struct RuntimeMatrix {
  using ShapeType = Rank<2>;

  ElementType type;
  const std::byte* first = nullptr;
  std::int64_t row_bytes = 0;
  Rank<2> extents{0, 0};
  Bytes touched{};
  Storage owner{};  // owns the copy; empty if the rows are read in place

  [[nodiscard]] Rank<2> shape() const noexcept { return extents; }
  [[nodiscard]] std::int64_t extent(std::size_t i) const noexcept { return extents.extents()[i]; }
};

/// Type-erased access to an object that satisfies RuntimeWeights. Valid as long as the object.
struct ErasedWeights {
  std::string_view name;
  ElementType type;
  std::span<const std::int64_t> dims;
  bool is_plain;
  std::uint64_t bytes;
  const void* weights;
  Result<Bytes> (*view)(const void* weights, std::uint64_t begin, std::uint64_t count,
                        std::vector<std::byte>& buffer);
};

/// The rows of `weights`, if kernels that calculate in `target` can read them in place; nullopt if the rows
/// have to be cast first.
/// `shape_mismatch` unless the weights have two dimensions, `would_lose` or `unsupported_encoding` unless
/// `target` holds every value of their type.
[[nodiscard]] Result<std::optional<RuntimeMatrix>> rows_in_place(const ErasedWeights& weights,
                                                                 const ElementType& target);
template <class D, RuntimeWeights W>
[[nodiscard]] auto rows_in_place(const W& weights) {
  const ErasedWeights erased{.name = weights.name(),
                             .type = weights.type(),
                             .dims = weights.dims(),
                             .is_plain = weights.is_plain(),
                             .bytes = weights.byte_size(),
                             .weights = &weights,
                             .view = [](const void* object, std::uint64_t begin, std::uint64_t count,
                                        std::vector<std::byte>& buffer) {
                               return static_cast<const W*>(object)->view(begin, count, buffer);
                             }};
  return rows_in_place(erased, element_type_of<D>());
}

/// Returns the matrix or the Error in `rows`, a result of `rows_in_place`. `rows` must not hold nullopt.
[[nodiscard]] Result<RuntimeMatrix> matrix_or_error(Result<std::optional<RuntimeMatrix>> rows);
/// Returns the matrix of a copy, whose elements `owner` keeps alive.
[[nodiscard]] Result<RuntimeMatrix> matrix_of_copy(const ElementType& type, const Result<Bytes>& elements,
                                                   std::span<const std::int64_t> dims, const Storage& owner);

/// Returns the rows in place, or the rows of a copy in D, as Result<RuntimeMatrix>.
template <class D, RuntimeWeights W>
[[nodiscard]] auto matrix_of(const W& weights) {
  auto rows = rows_in_place<D>(weights);
  if (!rows || *rows) return matrix_or_error(std::move(rows));
  const auto copy = weights.template cast<D>();
  if (!copy) return matrix_or_error(fail(copy.error()));
  return matrix_of_copy(element_type_of<D>(), copy->bytes(), weights.dims(), copy->storage());
}

}  // namespace detail

}  // namespace ht::inline v1
