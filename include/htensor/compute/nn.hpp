// Operations of neural networks: softmax, norms, activations, rotary embedding, argmax.
//
//   const auto h = HT_TRY(ht::rms_norm(x, norm_weight, 1e-5));            // weight: BF16, Q8_0, …
//   const auto q = HT_TRY(ht::rope(queries, {.first_position = past}));   // [tokens, heads, head_size]
//   const auto p = HT_TRY(ht::softmax(scores));
//   const auto m = HT_TRY(ht::swiglu(gate, up));                          // silu(gate) · up
//   const auto next = HT_TRY(ht::argmax(logits));                         // I64, one per row
//
// Inputs are F32 or F64 with any strides and may be mapped; an unreadable page is an Error. Results are
// contiguous, in new memory, in the dtype of the input. A row is the last dimension. Large inputs are split
// across the threads of `ComputeOptions::workers`; results depend neither on the number of threads nor on the
// processor. Many threads may call the functions at once.
//
// On OpenCL devices the same functions run kernels of the device; weights are tensors on the device.
// `ComputeOptions` selects the threads of the host or the queue of the device.
//
// Error bounds on the host (for OpenCL devices see htensor/device/transfer.hpp), with u = 2^-24 for F32 and
// 2^-53 for F64, n elements per row, and y the exact result:
//
//   softmax        (8 + |x - max| + ln n) u |y|; subnormal results: 1 ulp
//   log_softmax    2 u |y| + (8 + ln n) u
//   rms_norm       F32: 1.01 u |y|; F64: (16 + n / 512) u |y|
//   layer_norm     u |y| + (64 + n / 128) 2^-53 (M / σ) |weight| for M = max |x|, σ = √(variance + epsilon)
//   silu           6 u |y|, where |y| is at least 2^-100 (F32) or 2^-1000 (F64)
//   swiglu         7 u |y|, where |y| and |silu(gate)| are in the same range
//   gelu           F32: 1.01 u |y|; F64: 16 u |y| (exact), (16 + 8 |x| + x²|x|) u |y| (tanh); same range
//   rope           4 u (|a| + |b|) for a pair (a, b), and 2^-48 of the angle
//
// The bounds of rms_norm, layer_norm and rope hold for results that are not subnormal.
//
// Ownership: inputs, weights and options are borrowed during the call; no result shares memory with an input.
//
// Errors: `shape_mismatch` and `bad_shape` as listed below, `out_of_memory`, `read_failed` or
// `changed_underfoot` for an unreadable page of a mapped input, and `device_unavailable` for OpenCL devices.
//
// Edge cases: inputs without elements give results without elements. NaN propagates within its row, or within
// its element for activations. Rank 0 is valid for activations; operations on rows require rank 1 or more.
//
// Cost: one to three passes over the input; rows that are not contiguous are gathered into a buffer of one
// row per thread. Inputs of fewer than 2^17 elements run on the calling thread.
//
// Attention of one head, q[tokens, size], k and v [past + tokens, size]:
//
//   const auto scores = HT_TRY(ht::scale(HT_TRY(ht::matmul(q, k.transpose())), 0.125F));
//   const auto weights = HT_TRY(ht::softmax(HT_TRY(scores + mask)));       // mask: 0 or -∞
//   const auto y = HT_TRY(ht::matmul(weights, v));                         // [tokens, size]
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <htensor/base/work.hpp>
#include <htensor/compute/weights.hpp>
#include <htensor/device/transfer.hpp>
#include <htensor/tensor/tensor.hpp>
#include <span>
#include <type_traits>

namespace ht::inline v1 {

/// The formula of `gelu`. Use the formula with which the model was trained.
enum class GeluForm : std::uint8_t {
  /// x Φ(x) = x/2 · (1 + erf(x / √2))
  exact,
  /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))
  tanh,
};

/// How `rope` rotates. The defaults are those of Llama 2 in GGUF files; most models state other values in
/// their metadata.
///
///   const auto halves = ht::RopeOptions::Pairs::halves;
///   const auto q = HT_TRY(ht::rope(x, {.pairs = halves, .base = 500000.0, .first_position = past}));
struct RopeOptions {
  /// The elements of a head that form a pair, which `rope` rotates together.
  enum class Pairs : std::uint8_t {
    /// (0, 1), (2, 3), …: Llama in GGUF files.
    interleaved,
    /// (0, half), (1, half + 1), …: NeoX, and Llama in files of Transformers.
    halves,
  };

  /// A wrong choice gives wrong numbers, not an Error.
  Pairs pairs = Pairs::interleaved;
  /// Pair i of a head is rotated by the angle position · base^(-2i / rotated_elements), where
  /// `rotated_elements` is the member below, or the size of a head if that is 0.
  double base = 10000.0;
  /// The position of the first token; token t is at `first_position + t`. To continue a prompt, set the
  /// number of tokens in the cache.
  std::int64_t first_position = 0;
  /// The number of leading elements of each head to rotate, an even number; the rest is copied. 0 rotates
  /// all.
  std::int64_t rotated_elements = 0;
  /// Divisors of the angles, one per pair, as in Llama 3.1 and later (`rope_freqs.weight` in GGUF files).
  /// Empty means 1 for all pairs. The caller keeps the array alive.
  std::span<const double> frequency_factors{};
};

/// The shape of one row, which the weights of norms have: the last dimension of S.
template <class S>
  requires(S::rank >= 1)
using RowShape = Shape<S::static_extents[static_cast<std::size_t>(S::rank - 1)]>;

namespace detail {

// T is float or double. `into` has room for the contiguous result. The functions compute on
// `options.workers`; the caller guards the mapped bytes.
template <class T>
[[nodiscard]] Result<void> softmax(const HostView<T>& x, T* into, const ComputeOptions& options);
template <class T>
[[nodiscard]] Result<void> log_softmax(const HostView<T>& x, T* into, const ComputeOptions& options);
/// Weights are contiguous; `bias` may be null.
template <class T>
[[nodiscard]] Result<void> rms_norm(const HostView<T>& x, const T* weight, double epsilon, T* into,
                                    const ComputeOptions& options);
template <class T>
[[nodiscard]] Result<void> layer_norm(const HostView<T>& x, const T* weight, const T* bias, double epsilon,
                                      T* into, const ComputeOptions& options);
template <class T>
[[nodiscard]] Result<void> silu(const HostView<T>& x, T* into, const ComputeOptions& options);
template <class T>
[[nodiscard]] Result<void> gelu(const HostView<T>& x, GeluForm form, T* into, const ComputeOptions& options);
template <class T>
[[nodiscard]] Result<void> swiglu(const HostView<T>& gate, const HostView<T>& x, T* into,
                                  const ComputeOptions& options);
template <class T>
[[nodiscard]] Result<void> rope(const HostView<T>& x, const RopeOptions& rope, T* into,
                                const ComputeOptions& options);
template <class T>
[[nodiscard]] Result<void> argmax(const HostView<T>& x, std::int64_t* into, const ComputeOptions& options);

/// `shape_mismatch` unless the weight has as many elements as a row.
[[nodiscard]] Result<void> check_row_weight(layout::Extents extents, layout::Extents weight);
/// `bad_shape` if there are rows without elements.
[[nodiscard]] Result<void> check_rows_have_elements(layout::Extents extents);
/// The number of elements of a head that `rope` rotates, or `bad_shape`.
[[nodiscard]] Result<std::int64_t> count_rotated(layout::Extents extents, const RopeOptions& rope);
/// Writes the cosines and sines of the angles of all tokens, [tokens, pairs] each, for kernels of devices.
template <class T>
[[nodiscard]] Result<void> fill_rope_angles(const RopeOptions& rope, std::int64_t tokens, std::int64_t pairs,
                                            T* cosines, T* sines);

/// Returns a new tensor that `fill(view of x, elements of the result)` calculates. `weights` are other bytes
/// that `fill` reads. One guarded section covers x and the weights, so a page that cannot be read is an Error
/// and the result is dropped.
template <class Out, class D, class S, class Dev, class Fill>
[[nodiscard]] Result<Out> calculate(const Tensor<D, S, Dev>& x, typename Out::ShapeType shape, Fill fill,
                                    std::array<Bytes, 2> weights = {}) {
  using Element = typename Tensor<D, S, Dev>::Element;
  auto result = HT_TRY(Out::zeros(shape));
  const auto extents = x.shape().extents();
  const auto x_bytes = HT_TRY(placement::touched_bytes<D>(x.data(), extents, x.strides()));
  const std::array<Bytes, 3> touched{x_bytes, weights[0], weights[1]};
  HT_TRY(guarded(touched,
                 [&] { return fill(HostView<Element>{x.data(), extents, x.strides()}, result.data()); }));
  return result;
}

/// Computes a tensor of x's shape from x: by `op` of the device, or by `fill` on the host.
template <class Op, class D, class S, class Dev, class Fill>
[[nodiscard]] Result<Like<D, S, Dev>> map_rows(const Op& op, const Tensor<D, S, Dev>& x,
                                               const ComputeOptions& options, const Fill& fill) {
  using Out = Like<D, S, Dev>;
  if constexpr (HasOperation<Dev, Op, Out, Tensor<D, S, Dev>>) {
    return run_on_device<Out>(op, x.shape(), options, x);
  } else {
    return calculate<Out>(x, x.shape(), fill);
  }
}

/// The device calculates `Op` of a tensor of shape S and of these weights.
template <class Dev, class Op, class D, class S, class... Weights>
concept HasNn = CanRun<Dev, slice::Nn, D, Op, Like<D, S, Dev>, Tensor<D, S, Dev>, Weights...>;

}  // namespace detail

/// Returns e^x divided by the sum of e^x over the row. The largest element of the row is subtracted first, so
/// that e^x does not overflow. A row of -∞ only, which is fully masked, becomes 0; a row with +∞ or NaN
/// becomes NaN. To mask positions, add -∞ to their scores before the call.
template <class D, class S, class Dev>
  requires detail::HasNn<Dev, operation::Softmax, D, S> && (S::rank >= 1)
[[nodiscard]] Result<detail::Like<D, S, Dev>> softmax(const Tensor<D, S, Dev>& x,
                                                      const ComputeOptions& options = {}) {
  return detail::map_rows(operation::Softmax{}, x, options,
                          [&](const auto& view, auto* into) { return detail::softmax(view, into, options); });
}

/// Returns the logarithm of softmax, also accurate where softmax underflows. A row of -∞ stays -∞. A row with
/// +∞ or NaN becomes NaN. Use it for log-likelihoods instead of the logarithm of `softmax`.
template <class D, class S, class Dev>
  requires detail::HasNn<Dev, operation::LogSoftmax, D, S> && (S::rank >= 1)
[[nodiscard]] Result<detail::Like<D, S, Dev>> log_softmax(const Tensor<D, S, Dev>& x,
                                                          const ComputeOptions& options = {}) {
  return detail::map_rows(operation::LogSoftmax{}, x, options, [&](const auto& view, auto* into) {
    return detail::log_softmax(view, into, options);
  });
}

/// Returns x / √(mean of x² + epsilon) · weight. The host adds squares in F64, so F64 inputs above 2^500
/// overflow. `shape_mismatch` if the weight and a row differ in length. With `epsilon` 0, a row of zeros
/// becomes NaN. The weight is a vector of any type that D holds, and is converted in each call.
template <class D, class S, class Dev, class W>
  requires detail::HasNn<Dev, operation::RmsNorm, D, S, W> && WeightOf<W, D, Dev> &&
           ShapesMayMatch<typename W::ShapeType, RowShape<S>>
[[nodiscard]] Result<detail::Like<D, S, Dev>> rms_norm(const Tensor<D, S, Dev>& x, const W& weight,
                                                       double epsilon, const ComputeOptions& options = {}) {
  using Out = detail::Like<D, S, Dev>;
  HT_TRY(detail::check_row_weight(x.shape().extents(), weight.shape().extents()));
  if constexpr (HasOperation<Dev, operation::RmsNorm, Out, Tensor<D, S, Dev>, W>) {
    return detail::run_on_device<Out>(operation::RmsNorm{epsilon}, x.shape(), options, x, weight);
  } else {
    const auto dense = HT_TRY(detail::dense_weight<std::remove_const_t<D>>(weight));
    const auto bytes = HT_TRY(dense.bytes());
    const auto fill = [&](const auto& view, auto* into) {
      return detail::rms_norm(view, dense.data(), epsilon, into, options);
    };
    return detail::calculate<Out>(x, x.shape(), fill, {bytes});
  }
}

/// Returns (x - mean) / √(variance + epsilon) · weight + bias, with the biased variance of the row (divided
/// by n). `shape_mismatch` if weight or bias and a row differ in length. The mean and the variance are
/// calculated in F64 in two passes, so a large mean costs no digits. With `epsilon` 0, a constant row becomes
/// NaN.
template <class D, class S, class Dev, class W, class B>
  requires detail::HasNn<Dev, operation::LayerNorm, D, S, W, B> && WeightOf<W, D, Dev> &&
           WeightOf<B, D, Dev> && ShapesMayMatch<typename W::ShapeType, RowShape<S>> &&
           ShapesMayMatch<typename B::ShapeType, RowShape<S>>
[[nodiscard]] Result<detail::Like<D, S, Dev>> layer_norm(const Tensor<D, S, Dev>& x, const W& weight,
                                                         const B& bias, double epsilon,
                                                         const ComputeOptions& options = {}) {
  using Out = detail::Like<D, S, Dev>;
  HT_TRY(detail::check_row_weight(x.shape().extents(), weight.shape().extents()));
  HT_TRY(detail::check_row_weight(x.shape().extents(), bias.shape().extents()));
  if constexpr (HasOperation<Dev, operation::LayerNorm, Out, Tensor<D, S, Dev>, W, B>) {
    return detail::run_on_device<Out>(operation::LayerNorm{epsilon}, x.shape(), options, x, weight, bias);
  } else {
    const auto weights = HT_TRY(detail::dense_weight<std::remove_const_t<D>>(weight));
    const auto biases = HT_TRY(detail::dense_weight<std::remove_const_t<D>>(bias));
    const auto weights_bytes = HT_TRY(weights.bytes());
    const auto biases_bytes = HT_TRY(biases.bytes());
    const auto fill = [&](const auto& view, auto* into) {
      return detail::layer_norm(view, weights.data(), biases.data(), epsilon, into, options);
    };
    return detail::calculate<Out>(x, x.shape(), fill, {weights_bytes, biases_bytes});
  }
}

/// The same without a bias.
template <class D, class S, class Dev, class W>
  requires detail::HasNn<Dev, operation::LayerNorm, D, S, W> && WeightOf<W, D, Dev> &&
           ShapesMayMatch<typename W::ShapeType, RowShape<S>>
[[nodiscard]] Result<detail::Like<D, S, Dev>> layer_norm(const Tensor<D, S, Dev>& x, const W& weight,
                                                         double epsilon, const ComputeOptions& options = {}) {
  using Out = detail::Like<D, S, Dev>;
  HT_TRY(detail::check_row_weight(x.shape().extents(), weight.shape().extents()));
  if constexpr (HasOperation<Dev, operation::LayerNorm, Out, Tensor<D, S, Dev>, W>) {
    return detail::run_on_device<Out>(operation::LayerNorm{epsilon}, x.shape(), options, x, weight);
  } else {
    const auto weights = HT_TRY(detail::dense_weight<std::remove_const_t<D>>(weight));
    const auto bytes = HT_TRY(weights.bytes());
    const auto fill = [&](const auto& view, auto* into) {
      const decltype(weights.data()) no_bias = nullptr;
      return detail::layer_norm(view, weights.data(), no_bias, epsilon, into, options);
    };
    return detail::calculate<Out>(x, x.shape(), fill, {bytes});
  }
}

/// Returns x / (1 + e^-x); -0 for -∞. NaN stays NaN, and +∞ stays +∞.
template <class D, class S, class Dev>
  requires detail::HasNn<Dev, operation::Silu, D, S>
[[nodiscard]] Result<detail::Like<D, S, Dev>> silu(const Tensor<D, S, Dev>& x,
                                                   const ComputeOptions& options = {}) {
  return detail::map_rows(operation::Silu{}, x, options,
                          [&](const auto& view, auto* into) { return detail::silu(view, into, options); });
}

/// Returns the Gaussian error linear unit of x; -0 for -∞. NaN stays NaN, and +∞ stays +∞. The two forms
/// differ by less than 0.001.
template <class D, class S, class Dev>
  requires detail::HasNn<Dev, operation::Gelu, D, S>
[[nodiscard]] Result<detail::Like<D, S, Dev>> gelu(const Tensor<D, S, Dev>& x,
                                                   GeluForm form = GeluForm::exact,
                                                   const ComputeOptions& options = {}) {
  return detail::map_rows(
      operation::Gelu{.is_tanh = form == GeluForm::tanh}, x, options,
      [&](const auto& view, auto* into) { return detail::gelu(view, form, into, options); });
}

/// Returns silu(gate) · x, the product in the feed-forward layers of Llama. `shape_mismatch` if the shapes
/// differ. One pass, without a tensor for silu(gate). The inputs may have different strides.
template <class D, class X, class S, class XS, class Dev>
  requires detail::HasNn<Dev, operation::Swiglu, D, S, Tensor<X, XS, Dev>> &&
           std::same_as<std::remove_const_t<D>, std::remove_const_t<X>> && ShapesMayMatch<S, XS>
[[nodiscard]] Result<detail::Like<D, S, Dev>> swiglu(const Tensor<D, S, Dev>& gate,
                                                     const Tensor<X, XS, Dev>& x,
                                                     const ComputeOptions& options = {}) {
  using Out = detail::Like<D, S, Dev>;
  HT_TRY(layout::check_equal(gate.shape().extents(), x.shape().extents()));
  if constexpr (HasOperation<Dev, operation::Swiglu, Out, Tensor<D, S, Dev>, Tensor<X, XS, Dev>>) {
    return detail::run_on_device<Out>(operation::Swiglu{}, gate.shape(), options, gate, x);
  } else {
    const auto extents = x.shape().extents();
    const auto x_bytes = HT_TRY(placement::touched_bytes<X>(x.data(), extents, x.strides()));
    const detail::HostView<typename D::Element> other{x.data(), extents, x.strides()};
    const auto fill = [&](const auto& view, auto* into) {
      return detail::swiglu(view, other, into, options);
    };
    return detail::calculate<Out>(gate, gate.shape(), fill, {x_bytes});
  }
}

/// Rotary position embedding: rotates the pairs of each head by angles that grow with the token's position. x
/// is [tokens, heads, head_size]. `bad_shape` if the number of rotated elements is odd or exceeds the head;
/// `shape_mismatch` if the number of frequency factors is neither 0 nor the number of pairs. Angles are
/// calculated in F64 on the host, also for devices. Elements after the rotated ones are copied. For [heads,
/// tokens, head_size], pass `x.transpose<0, 1>()`; the result has the transposed shape.
template <class D, class S, class Dev>
  requires detail::HasNn<Dev, operation::Rope, D, S, Tensor<const D, Rank<2>, Dev>,
                         Tensor<const D, Rank<2>, Dev>> &&
           (S::rank == 3)
[[nodiscard]] Result<detail::Like<D, S, Dev>> rope(const Tensor<D, S, Dev>& x, const RopeOptions& rope = {},
                                                   const ComputeOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  using Out = detail::Like<D, S, Dev>;
  using Angles = Tensor<const D, Rank<2>, Dev>;
  if constexpr (HasOperation<Dev, operation::Rope, Out, Tensor<D, S, Dev>, Angles, Angles>) {
    const std::int64_t pairs = HT_TRY(detail::count_rotated(x.shape().extents(), rope)) / 2;
    const Rank<2> shape(x.extent(0), pairs);
    const auto cosines = HT_TRY(Tensor<DType, Rank<2>>::zeros(shape));
    const auto sines = HT_TRY(Tensor<DType, Rank<2>>::zeros(shape));
    HT_TRY(detail::fill_rope_angles(rope, x.extent(0), pairs, cosines.data(), sines.data()));
    const auto device_cosines = HT_TRY(to_device<Dev>(cosines, options));
    const auto device_sines = HT_TRY(to_device<Dev>(sines, options));
    const operation::Rope op{.is_interleaved = rope.pairs == RopeOptions::Pairs::interleaved};
    return detail::run_on_device<Out>(op, x.shape(), options, x, device_cosines, device_sines);
  } else {
    return detail::calculate<Out>(
        x, x.shape(), [&](const auto& view, auto* into) { return detail::rope(view, rope, into, options); });
  }
}

namespace detail {

// One index per row of a tensor of shape S.
template <class S, class Dev>
using RowIndices = Tensor<I64, ShapeFrom<without<S, S::rank - 1>()>, Dev>;

}  // namespace detail

/// Returns the index of the largest element of each row: the first index if several elements are equal, the
/// index of the first NaN if there is one. `bad_shape` for rows without elements. The result is a
/// Result<Tensor<I64, …>> of one rank less: of rank 0 for a vector. Its memory is on the device of x.
template <class D, class S, class Dev>
  requires(S::rank >= 1) && Compatible<Dev, I64> &&
          CanRun<Dev, slice::Nn, D, operation::Argmax, detail::RowIndices<S, Dev>, Tensor<D, S, Dev>>
[[nodiscard]] auto argmax(const Tensor<D, S, Dev>& x, const ComputeOptions& options = {})
    -> Result<detail::RowIndices<S, Dev>> {
  using Out = detail::RowIndices<S, Dev>;
  const auto extents = x.shape().extents();
  HT_TRY(detail::check_rows_have_elements(extents));
  const auto shape = Out::ShapeType::assume(layout::Extents(extents).first(extents.size() - 1));
  if constexpr (HasOperation<Dev, operation::Argmax, Out, Tensor<D, S, Dev>>) {
    return detail::run_on_device<Out>(operation::Argmax{}, shape, options, x);
  } else {
    return detail::calculate<Out>(
        x, shape, [&](const auto& view, std::int64_t* into) { return detail::argmax(view, into, options); });
  }
}

}  // namespace ht::inline v1
