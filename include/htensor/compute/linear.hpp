// Products of stored weights with vectors: linear layers, and matmul with weights of any dtype or encoding.
//
//   const auto w = HT_TRY(model.tensor<ht::Q4_K, ht::Rank<2>>("blk.0.ffn_up.weight"));   // [n, k], in place
//   const auto y = HT_TRY(ht::linear(x, w));                                // x[..., k] to y[..., n]
//   const auto z = HT_TRY(ht::linear(x, w, bias));                          // plus bias[n]
//   const auto fast = HT_TRY(ht::linear(x, w, {.int8_activations = true})); // rounds x, see LinearOptions
//   const auto [q, k, v] = HT_TRY(ht::linear(x, std::array{wq, wk, wv}));   // AnyTensors: one pass
//   const auto m = HT_TRY(ht::matmul(ht::as<ht::F32>(w), v));               // v[k] or v[k, columns]
//
// On the host, weights are a Tensor, a BlockTensor, a lazy view `as<F32>(w)` of either, or an AnyTensor (see
// weights.hpp). On OpenCL devices, weights are a Tensor on the device. The dtype of x is F32 or F64 and must
// hold every value of the weights' type, as F32 holds those of BF16. Otherwise a call with typed weights does
// not compile, and a call with an AnyTensor returns `would_lose`. Results are in new memory.
//
// Weights are read in place and widened in registers; one read of the weights serves up to 4 vectors of F32.
// With many vectors, weights are instead decoded in panels of a few MiB, and CBLAS multiplies each panel, or
// a kernel of this library if no CBLAS is installed. This begins at the panel threshold: 32 vectors if x is
// F32 (16 for weights of F32), 4 vectors if x is F64. Products with int8 activations have no threshold. Rows
// may have any stride. Weights are cast first if elements of a row are not contiguous, if packed rows begin
// within a byte, or if the dtype is user-defined. x and bias may have any strides.
//
// Static extents that differ do not compile; dynamic extents that differ return `shape_mismatch`. An
// unreadable page of a mapped file is an Error. The functions are thread-safe. Each call uses the threads of
// `LinearOptions::workers`, by default one per processor.
//
// Below the panel threshold, the result depends neither on the number of threads nor on the processor:
// products are added in a fixed order, F32 products by fused multiply-add. CBLAS uses its own order and its
// own threads and ignores `workers`. The error is at most k · u · Σ|x · w| with u = 2^-24 (F64: 2^-53), plus
// u · |y| with a bias, unless products are subnormal. Weights of Q8_0 may give an infinity or NaN if x has
// magnitudes above 2^119: the kernel multiplies x by the integers of a block and adds the products in pairs,
// and the sum of a pair may overflow before it is multiplied by the block's scale.
//
// Ownership: x, weights and bias are borrowed during the call. A result shares no memory with them, is
// row-major and has the dtype and the device of x.
//
// Errors: `shape_mismatch` if the inner extent of x is not the number of columns of the weights, or if the
// size of the bias is not the number of rows of the weights; `out_of_memory`; `read_failed` or
// `changed_underfoot` for an unreadable page of a mapped operand. The inner extent of x is the last one in
// `linear`, and the first one in `matmul`. For weights of a type known at run time also `would_lose`,
// `unsupported_encoding` for unknown types, and the errors of `AnyTensor::view`.
//
// Edge cases: without columns (k = 0), products are 0, plus the bias. Without rows or without vectors, the
// result has no elements. NaN and infinity in x or in the weights propagate to the results that use them.
//
// Which function:
//
//   weights known at compile time       linear(x, w), checked by the compiler
//   weights of a Model, any type        linear(x, model["name"]), checked at run time
//   several weights, one input          linear(x, std::array{q, k, v}), one parallel pass
//   w · X with vectors as columns       matmul(as<F32>(w), X)
//   both operands computed, no weights  matmul(a, b) of htensor/compute/matmul.hpp
//
// A bias of another dtype than x is cast once, not in each call:
//
//   const auto b = HT_TRY(ht::cast<ht::F32>(stored_bias));           // BF16 in the file
//   for (const auto& x : batches) use(HT_TRY(ht::linear(x, w, b)));
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/compute/elementwise.hpp>
#include <htensor/compute/weights.hpp>
#include <htensor/dtype/device.hpp>
#include <htensor/dtype/encoding.hpp>
#include <htensor/tensor/tensor.hpp>
#include <htensor/values/cast.hpp>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace ht::inline v1 {

/// How `linear` computes. The caller keeps `workers` and `queue` alive during the call.
///
///   ht::Workers two(2);
///   const auto y = HT_TRY(ht::linear(x, w, {.int8_activations = true, .workers = &two}));
struct LinearOptions {
  /// Rounds x to int8 and multiplies integers, for Q8_0, Q4_0, Q4_K, Q5_K and Q6_K. Has no effect for other
  /// weights or if x is F64. Each run of 32 or 256 elements of x, the block size of the weights, shares one
  /// x_scale: the largest magnitude divided by 127.
  ///
  /// For each block of weights w, this adds at most (1 + 2^-16) (x_scale / 2) · Σ|w| to the error. Weights of
  /// Q4_K, Q5_K and Q6_K are differences w_scale · q - offset. The kernels sum both terms separately and
  /// subtract the sums, so k · u · Σ(|w_scale · q| + |offset|) · |x| replaces k · u · Σ|x · w| in the error.
  /// A NaN or an infinity in x makes results NaN.
  ///
  /// The result depends neither on the number of threads nor on the processor. Compare the results of a model
  /// with and without this option before use.
  bool int8_activations = false;
  /// The threads of an operation on the host; `Workers::shared()` if null.
  Workers* workers = nullptr;
  /// The queue of an OpenCL device; the device's default queue if null.
  const OpenClQueue* queue = nullptr;
};

namespace detail {

/// The extents of x with the last one replaced by the number of rows.
template <class SX, class SW>
consteval auto linear_extents() {
  auto all = SX::static_extents;
  all[all.size() - 1] = SW::static_extents[0];
  return all;
}
/// The shape of `linear(x, w)`.
template <class SX, class SW>
using LinearShape = ShapeFrom<linear_extents<SX, SW>()>;

/// The extents of x with the first one replaced by the number of rows.
template <class SW, class SX>
consteval auto weights_product_extents() {
  auto all = SX::static_extents;
  all[0] = SW::static_extents[0];
  return all;
}
/// The shape of `matmul(as<F32>(w), x)`.
template <class SW, class SX>
using WeightsProductShape = ShapeFrom<weights_product_extents<SW, SX>()>;

/// Rows of weights in memory. Each row of packed elements starts at a byte; rows of blocks have whole blocks.
/// Alignment is not required. `row_bytes` is the distance between rows and may be negative. `touched` covers
/// all bytes that a read of the rows touches. A view: the tensor of the weights keeps the bytes alive.
struct WeightRows {
  ElementType type;
  const std::byte* first = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t count = 0;
  std::int64_t columns = 0;
  Bytes touched{};
};

/// `batch` vectors in row-major order. All weights of a call have the same number of columns, which is the
/// length of a vector. A view of contiguous elements.
template <class T>
struct LinearInput {
  const T* x = nullptr;
  std::int64_t batch = 0;
};

/// One product with the vectors. `bias` is null or has an element for each row; `into` is [batch, rows].
/// `into` belongs to the result and does not overlap the operands.
template <class T>
struct LinearProduct {
  WeightRows weights;
  const T* bias = nullptr;
  T* into = nullptr;
};

/// Computes all products. Products that do not use CBLAS run in one parallel pass. Writes every element of
/// every `into`, or returns an Error and leaves them unspecified. The caller guards the mapped bytes.
[[nodiscard]] Result<void> run_linear(std::span<const LinearProduct<float>> products,
                                      const LinearInput<float>& input, const LinearOptions& options);
[[nodiscard]] Result<void> run_linear(std::span<const LinearProduct<double>> products,
                                      const LinearInput<double>& input, const LinearOptions& options);

/// `shape_mismatch` unless the extent `dimension` of x is the number of columns of the weights.
[[nodiscard]] Result<void> check_inner_extents(layout::Extents x, layout::Extents weights,
                                               std::size_t dimension);
/// `shape_mismatch` unless the bias has an element for each row of the weights.
[[nodiscard]] Result<void> check_bias_extent(layout::Extents bias, layout::Extents weights);

/// The bytes that a read of all rows touches, including gaps between rows, for `guarded`.
template <class E, class S>
[[nodiscard]] Result<Bytes> touched_by(const BlockTensor<E, S>& weights) noexcept {
  return weights.bytes();
}
template <class D, class S, class Dev>
[[nodiscard]] Result<Bytes> touched_by(const Tensor<D, S, Dev>& weights) {
  return placement::touched_bytes<D>(weights.data(), weights.shape().extents(), weights.strides());
}
[[nodiscard]] Result<Bytes> touched_by(const RuntimeMatrix& weights);

/// Describes the rows of the weights. `touched` is the result of `touched_by`.
template <class E, class S>
[[nodiscard]] WeightRows rows_of(const BlockTensor<E, S>& weights, Bytes touched) noexcept {
  const std::int64_t columns = weights.extent(1);
  return {.type = element_type_of<E>(),
          .first = weights.data(),
          .row_bytes = columns / E::block_elements * E::block_bytes,
          .count = weights.extent(0),
          .columns = columns,
          .touched = touched};
}

/// Whether kernels can read the rows in place. The elements of a row are adjacent and start at a whole byte,
/// and the dtype is one of the library.
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

/// The caller has checked `has_plain_rows`.
template <class D, class S, class Dev>
[[nodiscard]] WeightRows rows_of(const Tensor<D, S, Dev>& weights, Bytes touched) noexcept {
  using Stored = std::remove_const_t<D>;
  // With fewer than two rows the stride is unused and was not validated.
  const std::int64_t stride = weights.extent(0) <= 1 || touched.empty() ? 0 : weights.strides()[0];
  return {.type = element_type_of<Stored>(),
          .first = first_byte<D>(weights.data()),
          .row_bytes = stride * Stored::bits / 8,
          .count = weights.extent(0),
          .columns = weights.extent(1),
          .touched = touched};
}

[[nodiscard]] inline WeightRows rows_of(const RuntimeMatrix& weights, Bytes touched) noexcept {
  return {.type = weights.type,
          .first = weights.first,
          .row_bytes = weights.row_bytes,
          .count = weights.extent(0),
          .columns = weights.extent(1),
          .touched = touched};
}

/// The number of vectors in x; 1 if x has rank 1.
template <class SX>
[[nodiscard]] std::int64_t batch_of(const SX& shape) noexcept {
  std::int64_t batch = 1;
  const auto extents = shape.extents();
  for (std::size_t i = 0; i + 1 < extents.size(); ++i) batch *= extents[i];
  return batch;
}

// The caller has checked the extents. Weights that kernels cannot read are cast once and then multiplied. x
// and bias are copied unless they are contiguous.
template <class D, class SX, class T, class SB, class Dev, class Out>
[[nodiscard]] Result<void> linear_on_host(const Tensor<const D, SX, Dev>& x, const T& weights,
                                          const Tensor<const D, SB, Dev>* bias, const LinearOptions& options,
                                          const Out& result) {
  if constexpr (is_dense_tensor<T>) {
    if (!has_plain_rows(weights)) return linear_on_host(x, HT_TRY(cast<D>(weights)), bias, options, result);
  }
  const auto vectors = HT_TRY(x.contiguous());
  const LinearInput<typename D::Element> input{.x = vectors.data(), .batch = batch_of(x.shape())};
  const auto rows = rows_of(weights, HT_TRY(touched_by(weights)));
  LinearProduct<typename D::Element> product{.weights = rows, .bias = nullptr, .into = result.data()};
  const std::span<const LinearProduct<typename D::Element>> products(&product, 1);
  std::array<Bytes, 3> touched{rows.touched, Bytes(), Bytes()};
  touched[1] = HT_TRY(vectors.bytes());
  if (bias == nullptr) return guarded(touched, [&] { return run_linear(products, input, options); });
  const auto dense_bias = HT_TRY(bias->contiguous());
  product.bias = dense_bias.data();
  touched[2] = HT_TRY(dense_bias.bytes());
  return guarded(touched, [&] { return run_linear(products, input, options); });
}

// Checks the extents, allocates the result, and calls the device or the host. `bias` may be null.
template <class D, class SX, class T, class SB, class Dev>
[[nodiscard]] auto linear(const Tensor<const D, SX, Dev>& x, const T& weights,
                          const Tensor<const D, SB, Dev>* bias, const LinearOptions& options)
    -> Result<Tensor<D, LinearShape<SX, typename T::ShapeType>, Dev>> {
  using Out = Tensor<D, LinearShape<SX, typename T::ShapeType>, Dev>;
  constexpr auto last = static_cast<std::size_t>(SX::rank - 1);
  HT_TRY(check_inner_extents(x.shape().extents(), weights.shape().extents(), last));
  if (bias != nullptr) HT_TRY(check_bias_extent(bias->shape().extents(), weights.shape().extents()));
  auto extents = x.shape().extents();
  extents[last] = weights.extent(0);
  const auto shape = Out::ShapeType::assume(extents);
  if constexpr (HasOperation<Dev, operation::Linear, Out, Tensor<const D, SX, Dev>, T>) {
    const ComputeOptions compute_options{.workers = options.workers, .queue = options.queue};
    if (bias == nullptr) return run_on_device<Out>(operation::Linear{}, shape, compute_options, x, weights);
    return run_on_device<Out>(operation::Linear{}, shape, compute_options, x, weights, *bias);
  } else {
    auto result = HT_TRY(Out::zeros(shape));
    HT_TRY(linear_on_host(x, weights, bias, options, result));
    return result;
  }
}

/// Checks the extents and returns a zeroed tensor for the result of `linear(x, w)`. `shape_mismatch`,
/// `out_of_memory`.
template <class D, class SX>
[[nodiscard]] Result<Tensor<D, LinearShape<SX, Rank<2>>>> linear_result(const SX& x,
                                                                        const RuntimeMatrix& weights) {
  constexpr auto last = static_cast<std::size_t>(SX::rank - 1);
  auto extents = x.extents();
  HT_TRY(check_inner_extents(extents, weights.shape().extents(), last));
  extents[last] = weights.extent(0);
  return Tensor<D, LinearShape<SX, Rank<2>>>::zeros(LinearShape<SX, Rank<2>>::assume(extents));
}

// Matrices that kernels cannot read in place are cast before the first product. One guarded section covers x
// and all matrices.
template <class D, class SX, RuntimeWeights W, std::size_t... I>
[[nodiscard]] auto linear_of_each(const Tensor<const D, SX>& x, const std::array<W, sizeof...(I)>& weights,
                                  const LinearOptions& options, std::index_sequence<I...> /*numbers*/)
    -> Result<std::array<Tensor<D, LinearShape<SX, Rank<2>>>, sizeof...(I)>> {
  using T = typename D::Element;
  const std::array matrices{matrix_of<D>(weights[I])...};
  for (const auto& matrix : matrices) {
    if (!matrix) return fail(matrix.error());
  }
  const std::array<Result<Tensor<D, LinearShape<SX, Rank<2>>>>, sizeof...(I)> results{
      linear_result<D>(x.shape(), *matrices[I])...};
  for (const auto& result : results) {
    if (!result) return fail(result.error());
  }
  const auto vectors = HT_TRY(x.contiguous());
  const LinearInput<T> input{.x = vectors.data(), .batch = batch_of(x.shape())};
  const std::array<LinearProduct<T>, sizeof...(I)> products{
      LinearProduct<T>{.weights = rows_of(*matrices[I], matrices[I]->touched),
                       .bias = nullptr,
                       .into = results[I]->data()}...};
  std::array<Bytes, sizeof...(I) + 1> touched{products[I].weights.touched...};
  touched.back() = HT_TRY(vectors.bytes());
  HT_TRY(guarded(touched, [&] { return run_linear(products, input, options); }));
  return std::array{*results[I]...};
}

}  // namespace detail

/// The device can calculate `linear(x, w)` for x of dtype D and shape SX, and for weights of type W and rank
/// 2. The host reads weights of every dtype and encoding whose values D holds. Other devices read dense
/// weights in their own memory.
template <class Dev, class D, class SX, class W>
concept HasLinear =
    WeightOf<W, D, Dev> && detail::StoredOf<W>::rank == 2 &&
    CanRun<Dev, slice::Linear, D, operation::Linear,
           Tensor<std::remove_const_t<D>, detail::LinearShape<SX, typename W::ShapeType>, Dev>,
           Tensor<const D, SX, Dev>, W>;

/// The last extent of x equals the last extent of the weights, unless one of them is dynamic. x has rank 1 or
/// more, and the weights have rank 2: [out, in].
template <class SX, class SW>
concept LinearExtentsMayMatch =
    SX::rank >= 1 && SW::rank == 2 &&
    detail::extents_may_match(SX::static_extents[SX::static_extents.size() - 1], SW::static_extents[1]);

/// The bias has one element for each row of the weights, unless one of these extents is dynamic. A bias has
/// rank 1.
template <class SB, class SW>
concept BiasMayMatch =
    SB::rank == 1 && SW::rank == 2 && detail::extents_may_match(SB::static_extents[0], SW::static_extents[0]);

/// The first extent of x equals the last extent of the weights, unless one of them is dynamic. x is a vector,
/// or a matrix whose columns are the vectors.
template <class SW, class SX>
concept ProductExtentsMayMatch = (SX::rank == 1 || SX::rank == 2) && SW::rank == 2 &&
                                 detail::extents_may_match(SX::static_extents[0], SW::static_extents[1]);

/// Returns y[..., i] = Σ_j x[..., j] · w[i, j], in new memory. x has rank 1 or more, and the result has the
/// same rank: Result<Tensor<D, …, Dev>>.
template <class D, class SX, class W, class Dev>
  requires Computes<Dev, slice::Linear, D> && LinearExtentsMayMatch<SX, typename W::ShapeType> &&
           HasLinear<Dev, D, SX, W>
[[nodiscard]] auto linear(const Tensor<D, SX, Dev>& x, const W& weights, const LinearOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  return detail::linear<DType>(Tensor<const DType, SX, Dev>(x), detail::stored_of(weights),
                               static_cast<const Tensor<const DType, Rank<1>, Dev>*>(nullptr), options);
}

/// Returns y[..., i] = Σ_j x[..., j] · w[i, j] + bias[i], in new memory. The bias is added last. The bias has
/// the dtype of x: cast a bias of another dtype with `cast` first.
template <class D, class SX, class W, class DB, class SB, class Dev>
  requires Computes<Dev, slice::Linear, D> && SameDType<D, DB> &&
           LinearExtentsMayMatch<SX, typename W::ShapeType> && BiasMayMatch<SB, typename W::ShapeType> &&
           HasLinear<Dev, D, SX, W>
[[nodiscard]] auto linear(const Tensor<D, SX, Dev>& x, const W& weights, const Tensor<DB, SB, Dev>& bias,
                          const LinearOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  const Tensor<const DType, SB, Dev> const_bias(bias);
  return detail::linear<DType>(Tensor<const DType, SX, Dev>(x), detail::stored_of(weights), &const_bias,
                               options);
}

/// The same with weights whose type is known at run time: `shape_mismatch` unless they are a matrix,
/// `would_lose` where D does not hold their values. Weights that are not row-major and little-endian in
/// memory are cast in every call (weights.hpp).
template <class D, class SX, RuntimeWeights W>
  requires Computes<Host, slice::Linear, D> && (SX::rank >= 1)
[[nodiscard]] auto linear(const Tensor<D, SX>& x, const W& weights, const LinearOptions& options = {})
    -> Result<Tensor<std::remove_const_t<D>, detail::LinearShape<SX, Rank<2>>>> {
  using DType = std::remove_const_t<D>;
  const auto matrix = HT_TRY(detail::matrix_of<DType>(weights));
  return detail::linear<DType>(Tensor<const DType, SX>(x), matrix,
                               static_cast<const Tensor<const DType, Rank<1>>*>(nullptr), options);
}
/// The same plus bias[i].
template <class D, class SX, RuntimeWeights W, class DB, class SB>
  requires Computes<Host, slice::Linear, D> && SameDType<D, DB> && (SX::rank >= 1) && (SB::rank == 1)
[[nodiscard]] auto linear(const Tensor<D, SX>& x, const W& weights, const Tensor<DB, SB>& bias,
                          const LinearOptions& options = {})
    -> Result<Tensor<std::remove_const_t<D>, detail::LinearShape<SX, Rank<2>>>> {
  using DType = std::remove_const_t<D>;
  const auto matrix = HT_TRY(detail::matrix_of<DType>(weights));
  const Tensor<const DType, SB> const_bias(bias);
  return detail::linear<DType>(Tensor<const DType, SX>(x), matrix, &const_bias, options);
}

/// Returns the products of x with several weights, each as `linear` with one weight returns it. Threads do
/// not wait for each other between products, and x is rounded to int8 once for all weights of one block size.
/// From the panel threshold on, products run one after another.
///
/// Returns Result<std::array<Tensor<D, …>, N>>, in the order of the weights. Weights may differ in their
/// number of rows, but not in their number of columns:
///
///   const auto [gate, up] = HT_TRY(ht::linear(x, std::array{ffn_gate, ffn_up}));      // AnyTensors
template <class D, class SX, RuntimeWeights W, std::size_t N>
  requires Computes<Host, slice::Linear, D> && (SX::rank >= 1) && (N > 0)
[[nodiscard]] auto linear(const Tensor<D, SX>& x, const std::array<W, N>& weights,
                          const LinearOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  return detail::linear_of_each<DType>(Tensor<const DType, SX>(x), weights, options,
                                       std::make_index_sequence<N>());
}
/// The same with typed weights, on any device: one product after another.
template <class D, class SX, class W, class Dev, std::size_t N>
  requires Computes<Dev, slice::Linear, D> && LinearExtentsMayMatch<SX, typename W::ShapeType> &&
           HasLinear<Dev, D, SX, W> && (N > 0)
[[nodiscard]] auto linear(const Tensor<D, SX, Dev>& x, const std::array<W, N>& weights,
                          const LinearOptions& options = {})
    -> Result<
        std::array<Tensor<std::remove_const_t<D>, detail::LinearShape<SX, typename W::ShapeType>, Dev>, N>> {
  using Out = Tensor<std::remove_const_t<D>, detail::LinearShape<SX, typename W::ShapeType>, Dev>;
  std::array<std::optional<Out>, N> results;
  for (std::size_t i = 0; i < N; ++i) results[i] = HT_TRY(linear(x, weights[i], options));
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array{*results[I]...};
  }(std::make_index_sequence<N>());
}

/// Returns the product of stored weights [m, k] and x[k] or x[k, n], in new memory: [m] or [m, n]. Vectors
/// are the columns of x. The result is row-major; for x of rank 2, the transposed product is calculated and
/// then copied to that order. Errors are those of `linear`.
template <class D, class T, class X, class SX>
  requires SameDType<D, X> && Computes<Host, slice::Linear, D> && HostWeightOf<AsView<D, T>, D> &&
           ProductExtentsMayMatch<typename T::ShapeType, SX>
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
