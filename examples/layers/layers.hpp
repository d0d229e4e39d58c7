// Layers as templates over the dtype D of activations, the device Dev, and the type W of stored weights.
//
//   const auto layer = HT_TRY(example::Linear<D, Dev, W>::load(model, "hidden"));
//   const auto y = HT_TRY(layer(x));                          // x and y are tensors of D on Dev
//
// W is a dtype or a block encoding. On the host, weights stay in the mapped file. On other devices, dense
// weights share the mapped pages where the device can, and blocks are decoded to D first. `./dev lint` keeps
// the names of concrete dtypes and devices out of this file (tools/check_generic.py).
#pragma once

#include <htensor/htensor.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace example {

/// Returns a weight of the model in the form that operations on Dev read.
template <class D, class Dev, class W, class S>
  requires ht::HostAccessible<Dev>
[[nodiscard]] auto place_weight(const ht::AnyTensor& stored) -> decltype(stored.tensor<W, S>()) {
  return stored.tensor<W, S>();
}
template <class D, class Dev, ht::IsDType W, class S>
  requires(!ht::HostAccessible<Dev>)
[[nodiscard]] ht::Result<ht::Tensor<const W, S, Dev>> place_weight(const ht::AnyTensor& stored) {
  const auto mapped = HT_TRY(stored.tensor<W, S>());
  return ht::to_device<Dev>(mapped);
}
template <class D, class Dev, ht::IsEncoding W, class S>
  requires(!ht::HostAccessible<Dev>)
[[nodiscard]] ht::Result<ht::Tensor<D, S, Dev>> place_weight(const ht::AnyTensor& stored) {
  const auto blocks = HT_TRY(stored.tensor<W, S>());
  const auto decoded = HT_TRY(ht::cast<D>(blocks));
  return ht::to_device<Dev>(decoded);
}

/// Returns a bias in D. It is small, so it is always copied.
template <class D, class Dev>
[[nodiscard]] ht::Result<ht::Tensor<D, ht::Rank<1>, Dev>> place_bias(const ht::AnyTensor& stored) {
  const auto bias = HT_TRY(stored.cast<D>());
  return ht::to_device<Dev>(bias);
}

/// Maps x[…, in] to x · weightᵀ + bias, […, out].
template <class D, class Dev, class W = D>
class Linear {
 public:
  using Weight = typename decltype(place_weight<D, Dev, W, ht::Rank<2>>(
      std::declval<const ht::AnyTensor&>()))::value_type;
  using Bias = ht::Tensor<D, ht::Rank<1>, Dev>;

  Linear(Weight weight, Bias bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}

  /// Loads `NAME.weight` [out, in] and `NAME.bias` [out] from a model.
  [[nodiscard]] static ht::Result<Linear> load(const ht::Model& model, std::string_view name) {
    const auto weight = HT_TRY(model[std::string(name) + ".weight"]);
    const auto bias = HT_TRY(model[std::string(name) + ".bias"]);
    auto placed = HT_TRY(place_weight<D, Dev, W, ht::Rank<2>>(weight));
    return Linear(std::move(placed), HT_TRY(place_bias<D, Dev>(bias)));
  }

  template <class S>
  [[nodiscard]] auto operator()(const ht::Tensor<D, S, Dev>& x) const {
    return ht::linear(x, weight_, bias_);
  }

 private:
  Weight weight_;
  Bias bias_;
};

/// Maps x[images, in, height, width] to [images, out, …, …].
template <class D, class Dev, class W = D>
class Conv2d {
 public:
  using Weight = typename decltype(place_weight<D, Dev, W, ht::Rank<4>>(
      std::declval<const ht::AnyTensor&>()))::value_type;
  using Bias = ht::Tensor<D, ht::Rank<1>, Dev>;

  Conv2d(Weight weight, Bias bias, const ht::Conv2dOptions& options)
      : weight_(std::move(weight)), bias_(std::move(bias)), options_(options) {}

  /// Loads `NAME.weight` [out, in / groups, height, width] and `NAME.bias` [out] from a model.
  [[nodiscard]] static ht::Result<Conv2d> load(const ht::Model& model, std::string_view name,
                                               const ht::Conv2dOptions& options = {}) {
    const auto weight = HT_TRY(model[std::string(name) + ".weight"]);
    const auto bias = HT_TRY(model[std::string(name) + ".bias"]);
    auto placed = HT_TRY(place_weight<D, Dev, W, ht::Rank<4>>(weight));
    return Conv2d(std::move(placed), HT_TRY(place_bias<D, Dev>(bias)), options);
  }

  template <class S>
  [[nodiscard]] auto operator()(const ht::Tensor<D, S, Dev>& x) const {
    return ht::conv2d(x, weight_, bias_, options_);
  }

 private:
  Weight weight_;
  Bias bias_;
  ht::Conv2dOptions options_;
};

}  // namespace example
