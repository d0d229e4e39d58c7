// Products of stored weights with vectors: linear layers, and matmul with weights of any dtype or encoding.
//
//   const auto w = HT_TRY(model.tensor<ht::Q4_K, ht::Rank<2>>("blk.0.ffn_up.weight"));   // [n, k], in place
//   const auto y = HT_TRY(ht::linear(x, w));                                // x[..., k] to y[..., n]
//   const auto z = HT_TRY(ht::linear(x, w, bias));                          // plus bias[n]
//   const auto fast = HT_TRY(ht::linear(x, w, {.int8_activations = true})); // rounds x, see LinearOptions
//   const auto m = HT_TRY(ht::matmul(ht::as<ht::F32>(w), v));               // v[k] or v[k, columns]
//
// Weights are a Tensor, a BlockTensor, or either as `as<F32>(w)`: whatever F32 holds, for vectors of F32, or
// F64 for vectors of F64; or an AnyTensor, see runtime_weights.hpp. They are read where they lie, once for up
// to 4 vectors of F32, and widened in registers; nothing of their size is allocated. Rows may have any
// distance; elements of a row that do not follow each other, packed rows that begin within a byte, and dtypes
// of users are cast first. x and bias may have any strides.
//
// Static extents that differ do not compile, dynamic ones return `shape_mismatch`. Pages of mapped files that
// cannot be read are an Error. Calls may run on many threads at once; each uses all processors.
//
// The result depends neither on the number of threads nor on the processor: products are added in a fixed
// order, and never fused. The error is at most k · u · Σ|x · w| with u = 2^-24 (F64: 2^-53), and u · |y| more
// with a bias, barring subnormal products.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/workers.hpp>
#include <htensor/compute/operand.hpp>
#include <htensor/compute/runtime_weights.hpp>
#include <htensor/dtype/device.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/tensor/tensor.hpp>
#include <htensor/values/cast.hpp>
#include <type_traits>

namespace ht::inline v1 {

struct LinearOptions {
  /// Rounds x to int8 with one scale per 32 elements, the largest magnitude divided by 127, and multiplies
  /// integers, for Q8_0, Q4_0, Q4_K, Q5_K and Q6_K. Other weights and F64 ignore it.
  ///
  /// It adds at most Σ over these 32 of (scale / 2) · Σ|w| to the error. A NaN or an infinity in x makes
  /// results NaN.
  bool int8_activations = false;
  /// Null is `Workers::shared()`.
  Workers* workers = nullptr;
};

namespace detail {

template <class A, class B>
consteval bool extents_may_be_equal(std::size_t of_a, std::size_t of_b) {
  const auto a = A::static_extents[of_a];
  const auto b = B::static_extents[of_b];
  return a == dynamic || b == dynamic || a == b;
}

/// The extents of x with the last one replaced by the number of rows.
template <class SX, class SW>
consteval auto linear_extents() {
  auto all = SX::static_extents;
  all[all.size() - 1] = SW::static_extents[0];
  return all;
}
template <class SX, class SW>
using LinearShape = ShapeFrom<linear_extents<SX, SW>()>;

template <class SW, class SX>
consteval auto weights_product_extents() {
  auto all = SX::static_extents;
  all[0] = SW::static_extents[0];
  return all;
}
template <class SW, class SX>
using WeightsProductShape = ShapeFrom<weights_product_extents<SW, SX>()>;

/// Rows of weights in memory, and all bytes that reading them touches.
struct WeightRows {
  ElementType type;
  const std::byte* first = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t count = 0;
  std::int64_t columns = 0;
  Bytes touched{};
};

/// Vectors that follow each other, and where their results go, which have the same order. `bias` is null or
/// has an element for each row.
template <class T>
struct LinearTask {
  const T* x = nullptr;
  std::int64_t batch = 0;
  const T* bias = nullptr;
  T* into = nullptr;
};

[[nodiscard]] Result<void> run_linear(const WeightRows& weights, const LinearTask<float>& task,
                                      const LinearOptions& options);
[[nodiscard]] Result<void> run_linear(const WeightRows& weights, const LinearTask<double>& task,
                                      const LinearOptions& options);

[[nodiscard]] Result<void> check_inner_extents(layout::Extents x, layout::Extents weights, std::size_t of_x);
[[nodiscard]] Result<void> check_bias_extent(layout::Extents bias, layout::Extents weights);

template <class E, class S>
[[nodiscard]] WeightRows rows_of(const BlockTensor<E, S>& weights) noexcept {
  const std::int64_t columns = weights.extent(1);
  return {.type = element_type_of<E>(),
          .first = weights.data(),
          .row_bytes = columns / E::block_elements * E::block_bytes,
          .count = weights.extent(0),
          .columns = columns,
          .touched = weights.bytes()};
}

/// Whether kernels read the rows where they lie.
template <class D, class S, class Dev>
[[nodiscard]] bool has_plain_rows(const Tensor<D, S, Dev>& weights) noexcept {
  using Stored = std::remove_const_t<D>;
  if constexpr (!contains<Stored, AllDTypes>) {
    return false;
  } else {
    const bool is_dense = weights.strides()[1] == 1 || weights.extent(1) <= 1;
    const bool has_whole_bytes =
        !is_packed<Stored> || (first_byte<D>(weights.data()) != nullptr &&
                               (weights.extent(0) <= 1 || weights.strides()[0] * Stored::bits % 8 == 0));
    return is_dense && has_whole_bytes;
  }
}

template <class D, class S, class Dev>
[[nodiscard]] Result<WeightRows> rows_of(const Tensor<D, S, Dev>& weights) {
  using Stored = std::remove_const_t<D>;
  const auto touched =
      HT_TRY(placement::touched_bytes<D>(weights.data(), weights.shape().extents(), weights.strides()));
  // A stride that no second row uses was never checked.
  const std::int64_t stride = weights.extent(0) <= 1 || touched.empty() ? 0 : weights.strides()[0];
  return WeightRows{.type = element_type_of<Stored>(),
                    .first = first_byte<D>(weights.data()),
                    .row_bytes = stride * Stored::bits / 8,
                    .count = weights.extent(0),
                    .columns = weights.extent(1),
                    .touched = touched};
}

[[nodiscard]] inline WeightRows rows_of(const RuntimeMatrix& weights) noexcept {
  return {.type = weights.type,
          .first = weights.first,
          .row_bytes = weights.row_bytes,
          .count = weights.extent(0),
          .columns = weights.extent(1),
          .touched = weights.touched};
}

template <class D, class SX, class T, class SB>
[[nodiscard]] auto linear(const Tensor<const D, SX>& x, const T& weights, const Tensor<const D, SB>* bias,
                          const LinearOptions& options)
    -> Result<Tensor<D, LinearShape<SX, typename T::ShapeType>>> {
  using Out = Tensor<D, LinearShape<SX, typename T::ShapeType>>;
  constexpr auto last = static_cast<std::size_t>(SX::rank - 1);
  HT_TRY(check_inner_extents(x.shape().extents(), weights.shape().extents(), last));
  if (bias != nullptr) HT_TRY(check_bias_extent(bias->shape().extents(), weights.shape().extents()));
  if constexpr (is_dense_tensor<T>) {
    if (!has_plain_rows(weights)) return linear(x, HT_TRY(cast<D>(weights)), bias, options);
  }
  auto extents = x.shape().extents();
  std::int64_t batch = 1;
  for (std::size_t i = 0; i < last; ++i) batch *= extents[i];
  extents[last] = weights.extent(0);
  auto result = HT_TRY(Out::zeros(Out::ShapeType::assume(extents)));
  const auto vectors = HT_TRY(x.contiguous());
  LinearTask<typename D::Element> task{
      .x = vectors.data(), .batch = batch, .bias = nullptr, .into = result.data()};
  const Result<WeightRows> rows = rows_of(weights);
  if (!rows) return fail(rows.error());
  std::array<Bytes, 3> touched{rows->touched, Bytes(), Bytes()};
  touched[1] = HT_TRY(vectors.bytes());
  if (bias == nullptr) {
    HT_TRY(guarded(touched, [&] { return run_linear(*rows, task, options); }));
    return result;
  }
  const auto added = HT_TRY(bias->contiguous());
  task.bias = added.data();
  touched[2] = HT_TRY(added.bytes());
  HT_TRY(guarded(touched, [&] { return run_linear(*rows, task, options); }));
  return result;
}

}  // namespace detail

/// A dtype whose vectors `linear` multiplies.
template <class D>
concept LinearDType = std::same_as<D, F32> || std::same_as<D, F64>;

/// Weights of rank 2 that D holds the values of: a Tensor, a BlockTensor, or a view of either as D.
template <class W, class D>
concept WeightsReadableAs =
    ReadableAs<detail::StoredOf<W>, D> && std::same_as<typename detail::StoredOf<W>::Device, Host> &&
    detail::StoredOf<W>::rank == 2 && (!detail::is_as_view<W> || std::same_as<typename W::DType, D>);

/// The last extent of x may be that of the weights.
template <class SX, class SW>
concept LinearExtentsMayMatch =
    SX::rank >= 1 && SW::rank == 2 &&
    detail::extents_may_be_equal<SX, SW>(static_cast<std::size_t>(SX::rank - 1), 1);

/// The bias may have an element for each row of the weights.
template <class SB, class SW>
concept BiasMayMatch = SB::rank == 1 && SW::rank == 2 && detail::extents_may_be_equal<SB, SW>(0, 0);

/// The first extent of x may be the last one of the weights.
template <class SW, class SX>
concept ProductExtentsMayMatch =
    (SX::rank == 1 || SX::rank == 2) && SW::rank == 2 && detail::extents_may_be_equal<SX, SW>(0, 1);

/// y[..., i] = Σ_j x[..., j] · w[i, j], in new memory.
template <class D, class SX, class W>
  requires LinearDType<std::remove_const_t<D>> && Computes<Host, slice::Linear, D> &&
           WeightsReadableAs<W, std::remove_const_t<D>> && LinearExtentsMayMatch<SX, typename W::ShapeType>
[[nodiscard]] auto linear(const Tensor<D, SX>& x, const W& weights, const LinearOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  return detail::linear<DType>(Tensor<const DType, SX>(x), detail::stored_of(weights),
                               static_cast<const Tensor<const DType, Rank<1>>*>(nullptr), options);
}

/// y[..., i] = Σ_j x[..., j] · w[i, j] + bias[i], in new memory. The bias is added last.
template <class D, class SX, class W, class DB, class SB>
  requires LinearDType<std::remove_const_t<D>> && Computes<Host, slice::Linear, D> &&
           std::same_as<std::remove_const_t<D>, std::remove_const_t<DB>> &&
           WeightsReadableAs<W, std::remove_const_t<D>> && LinearExtentsMayMatch<SX, typename W::ShapeType> &&
           BiasMayMatch<SB, typename W::ShapeType>
[[nodiscard]] auto linear(const Tensor<D, SX>& x, const W& weights, const Tensor<DB, SB>& bias,
                          const LinearOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  const Tensor<const DType, SB> added(bias);
  return detail::linear<DType>(Tensor<const DType, SX>(x), detail::stored_of(weights), &added, options);
}

/// The same with weights whose type is known at run time: `shape_mismatch` unless they are a matrix,
/// `would_lose` where D does not hold their values.
template <class D, class SX, RuntimeWeights W>
  requires LinearDType<std::remove_const_t<D>> && Computes<Host, slice::Linear, D> && (SX::rank >= 1)
[[nodiscard]] auto linear(const Tensor<D, SX>& x, const W& weights, const LinearOptions& options = {})
    -> Result<Tensor<std::remove_const_t<D>, detail::LinearShape<SX, Rank<2>>>> {
  using DType = std::remove_const_t<D>;
  const auto matrix = HT_TRY(detail::matrix_of<DType>(weights));
  return detail::linear<DType>(Tensor<const DType, SX>(x), matrix,
                               static_cast<const Tensor<const DType, Rank<1>>*>(nullptr), options);
}
template <class D, class SX, RuntimeWeights W, class DB, class SB>
  requires LinearDType<std::remove_const_t<D>> && Computes<Host, slice::Linear, D> &&
           (SX::rank >= 1) && std::same_as<std::remove_const_t<D>, std::remove_const_t<DB>> && (SB::rank == 1)
[[nodiscard]] auto linear(const Tensor<D, SX>& x, const W& weights, const Tensor<DB, SB>& bias,
                          const LinearOptions& options = {})
    -> Result<Tensor<std::remove_const_t<D>, detail::LinearShape<SX, Rank<2>>>> {
  using DType = std::remove_const_t<D>;
  const auto matrix = HT_TRY(detail::matrix_of<DType>(weights));
  const Tensor<const DType, SB> added(bias);
  return detail::linear<DType>(Tensor<const DType, SX>(x), matrix, &added, options);
}

/// The product of stored weights [m, k] and x[k] or x[k, n], in new memory: [m] or [m, n].
template <class D, class T, class X, class SX>
  requires LinearDType<D> && std::same_as<D, std::remove_const_t<X>> && Computes<Host, slice::Linear, D> &&
           WeightsReadableAs<AsView<D, T>, D> && ProductExtentsMayMatch<typename T::ShapeType, SX>
[[nodiscard]] auto matmul(const AsView<D, T>& weights, const Tensor<X, SX>& x,
                          const LinearOptions& options = {})
    -> Result<Tensor<D, detail::WeightsProductShape<typename T::ShapeType, SX>>> {
  HT_TRY(detail::check_inner_extents(x.shape().extents(), weights.shape().extents(), 0));
  if constexpr (SX::rank == 1) {
    return linear(x, weights, options);
  } else {
    const auto rows = HT_TRY(linear(x.transpose(), weights, options));
    return rows.transpose().contiguous();
  }
}

}  // namespace ht::inline v1
