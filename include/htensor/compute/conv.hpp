// Convolution of images.
//
//   const auto y = HT_TRY(ht::conv2d(x, weight, bias, {.stride = {2, 2}, .padding = {1, 1}}));
//   const auto d = HT_TRY(ht::conv2d(x, depthwise, {.padding = {1, 1}, .groups = channels}));
//
// x is [images, channels, height, width] in F32 or F64, with any strides (copied first unless row-major); the
// weight is [outputs, channels / groups, kernel height, kernel width], stored in any dtype or encoding that
// x's dtype holds; the bias is [outputs]. The result is [images, outputs, …, …], in new memory. Mapped
// operands are read in place; an unreadable page is an Error. Many threads may call the functions at once.
//
//   y[i, o, r, c] = bias[o] + Σ weight[o, k, a, b] · x[i, g + k, r·stride + a·dilation - padding, …]
//
// This is a cross-correlation, as in PyTorch. x is zero outside of its extents; g is the first channel of o's
// group. Products are added in x's dtype in the order of the weight's elements, so that for finite weights
// the forms `direct` and `columns` give identical bits, for any number of threads and on any processor. The
// error is at most (n + 1) u Σ |weight · x| + u |y| for n = channels / groups · kernel height · kernel width,
// where u is 2^-24 for F32 and 2^-53 for F64.
//
// On OpenCL devices the same function runs a direct kernel of the device; `Conv2dOptions::Form` has no effect
// there, and weight and bias are tensors on the device.
//
// Ownership: operands are borrowed during the call; the result shares no memory with them. Cost: `direct`
// needs no memory beside the result, `columns` one tile of columns per thread. One call divides the outputs
// among the threads of `ComputeOptions::workers`.
//
// Errors: `shape_mismatch` if channels, groups and biases do not match; `bad_shape` for a kernel that is
// empty or larger than the padded image, groups that do not divide the outputs, and options out of range;
// `out_of_memory`; `read_failed` or `changed_underfoot` for an unreadable mapped page. Without images or
// without outputs, the result has no elements. A NaN in x reaches every result whose kernel covers it.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <htensor/base/work.hpp>
#include <htensor/compute/weights.hpp>
#include <optional>
#include <type_traits>

namespace ht::inline v1 {

/// Pairs are {vertical, horizontal}. With reach = dilation · (kernel height - 1), the result has
/// (height + 2 · padding - reach - 1) / stride + 1 rows, rounded down. Columns follow the same formula with
/// the widths.
struct Conv2dOptions {
  /// The algorithm of a convolution. For finite weights, all forms give the same result.
  enum class Form : std::uint8_t {
    /// `direct` for fewer than 4 outputs per group, else `columns`.
    automatic,
    /// Adds a row of x times a weight to a row of the result, for each weight. Needs no extra memory.
    direct,
    /// Copies the elements under the kernel into columns (im2col) and multiplies matrices, one tile at a
    /// time.
    columns,
  };

  /// The distance between neighbouring positions of the kernel, from 1 to 2^31 - 1.
  std::array<std::int64_t, 2> stride{1, 1};
  /// The number of rows and columns of zeros on each side of the image. From 0 to 2^31 - 1; the zeros take no
  /// memory.
  std::array<std::int64_t, 2> padding{0, 0};
  /// The distance between the elements of x that neighbouring weights multiply, from 1 to 2^31 - 1.
  std::array<std::int64_t, 2> dilation{1, 1};
  /// The number of groups of channels and of outputs. Output group i reads only channel group i. With as many
  /// groups as channels, the convolution is depthwise. Must divide the number of outputs.
  std::int64_t groups = 1;
  /// Choose a form only to compare speed or memory.
  Form form = Form::automatic;
};

namespace detail {

/// The validated dimensions of a convolution.
struct Conv2dPlan {
  std::int64_t images, channels, height, width;
  std::int64_t outputs, group_channels, kernel_height, kernel_width;
  std::int64_t out_height, out_width;
  Conv2dOptions options;
};

/// `shape_mismatch` or `bad_shape` if shapes and options do not match.
[[nodiscard]] Result<Conv2dPlan> plan_conv2d(layout::Extents x, layout::Extents weight,
                                             std::optional<std::int64_t> biases,
                                             const Conv2dOptions& options);

/// Elements are contiguous; `bias` may be null. T is float or double. `into` is zeroed.
template <class T>
[[nodiscard]] Result<void> run_conv2d(const Conv2dPlan& plan, const T* x, const T* weight, const T* bias,
                                      T* into, const ComputeOptions& options);

// Whether the static extents allow the convolution for some number of groups.
template <class S, class WS>
consteval bool may_convolve() {
  if constexpr (S::rank != 4 || WS::rank != 4) {
    return false;
  } else {
    const auto channels = S::static_extents[1];
    const auto group_channels = WS::static_extents[1];
    if (channels == dynamic || group_channels == dynamic) return true;
    return group_channels == 0 ? channels == 0 : channels % group_channels == 0;
  }
}

// Height and width depend on options, which are known at run time.
template <class S, class WS>
using Conv2dShape = Shape<S::static_extents[0], WS::static_extents[0], dynamic, dynamic>;

/// `bias` is a tensor, or nullptr.
template <class D, class S, class Dev, class W, class B>
[[nodiscard]] auto convolve_on_host(const Conv2dPlan& plan, const Tensor<const D, S, Dev>& x, const W& weight,
                                    const B& bias, const ComputeOptions& options,
                                    const Tensor<D, Conv2dShape<S, typename W::ShapeType>, Dev>& result)
    -> Result<void> {
  const auto dense = HT_TRY(x.contiguous());
  const auto weights = HT_TRY(dense_weight<D>(weight));
  const auto x_bytes = HT_TRY(dense.bytes());
  const auto weights_bytes = HT_TRY(weights.bytes());
  std::array<Bytes, 3> touched{x_bytes, weights_bytes, Bytes()};
  const auto run = [&](const typename D::Element* biases) {
    return guarded(touched, [&] {
      return run_conv2d(plan, dense.data(), weights.data(), biases, result.data(), options);
    });
  };
  if constexpr (std::same_as<B, std::nullptr_t>) {
    return run(nullptr);
  } else {
    const auto biases = HT_TRY(dense_weight<D>(bias));
    touched[2] = HT_TRY(biases.bytes());
    return run(biases.data());
  }
}

// Checks shapes and options, allocates the result, and calls the device or the host.
template <class D, class S, class Dev, class W, class... Bias>
[[nodiscard]] auto convolve(const Tensor<const D, S, Dev>& x, const Conv2dOptions& conv,
                            const ComputeOptions& options, const W& weight, const Bias&... bias)
    -> Result<Tensor<D, Conv2dShape<S, typename W::ShapeType>, Dev>> {
  using Out = Tensor<D, Conv2dShape<S, typename W::ShapeType>, Dev>;
  const auto biases = [&]() -> std::optional<std::int64_t> {
    if constexpr (sizeof...(Bias) == 0) {
      return std::nullopt;
    } else {
      return (bias.shape().extents()[0], ...);
    }
  }();
  const auto plan = HT_TRY(plan_conv2d(x.shape().extents(), weight.shape().extents(), biases, conv));
  const std::array<std::int64_t, 4> extents{plan.images, plan.outputs, plan.out_height, plan.out_width};
  const auto shape = Out::ShapeType::assume(extents);
  if constexpr (HasOperation<Dev, operation::Conv2d, Out, Tensor<const D, S, Dev>, W, Bias...>) {
    const operation::Conv2d op{conv.stride, conv.padding, conv.dilation, conv.groups};
    return run_on_device<Out>(op, shape, options, x, weight, bias...);
  } else {
    auto result = HT_TRY(Out::zeros(shape));
    if constexpr (sizeof...(Bias) == 0) {
      HT_TRY(convolve_on_host<D>(plan, x, weight, nullptr, options, result));
    } else {
      HT_TRY(convolve_on_host<D>(plan, x, weight, bias..., options, result));
    }
    return result;
  }
}

/// The device convolves a tensor of shape S with these weights.
template <class Dev, class D, class S, class W, class... Bias>
concept HasConv2d =
    CanRun<Dev, slice::Conv, D, operation::Conv2d, Like<D, Conv2dShape<S, typename W::ShapeType>, Dev>,
           Tensor<const D, S, Dev>, W, Bias...>;

}  // namespace detail

/// Both shapes have rank 4, and the number of channels of the weight divides the number of channels of x.
template <class S, class WS>
concept ConvolvableShapes = IsShape<S> && IsShape<WS> && detail::may_convolve<S, WS>();

/// Returns the convolution without a bias. `shape_mismatch` if the channels do not match, `bad_shape` if the
/// kernel is larger than the padded image or an option is out of range. The result is a Result<Tensor<D,
/// Shape<images, outputs, dynamic, dynamic>, Dev>>; extents that are static in x or the weight stay static.
template <class D, class S, class Dev, class W>
  requires Computes<Dev, slice::Conv, D> && WeightOf<W, D, Dev> &&
           ConvolvableShapes<S, typename W::ShapeType> && detail::HasConv2d<Dev, D, S, W>
[[nodiscard]] auto conv2d(const Tensor<D, S, Dev>& x, const W& weight, const Conv2dOptions& conv = {},
                          const ComputeOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  return detail::convolve<DType, S, Dev>(x, conv, options, weight);
}

/// The same plus bias[o] for each element of output o. `shape_mismatch` if the number of biases is not the
/// number of outputs. The bias may be stored in another dtype that D holds.
template <class D, class S, class Dev, class W, class B>
  requires Computes<Dev, slice::Conv, D> && WeightOf<W, D, Dev> && WeightOf<B, D, Dev> &&
           ConvolvableShapes<S, typename W::ShapeType> &&
           ShapesMayMatch<typename B::ShapeType, Shape<W::ShapeType::static_extents[0]>> &&
           detail::HasConv2d<Dev, D, S, W, B>
[[nodiscard]] auto conv2d(const Tensor<D, S, Dev>& x, const W& weight, const B& bias,
                          const Conv2dOptions& conv = {}, const ComputeOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  return detail::convolve<DType, S, Dev>(x, conv, options, weight, bias);
}

}  // namespace ht::inline v1
