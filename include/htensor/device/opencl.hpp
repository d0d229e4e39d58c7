// OpenCL: queues, reductions, matmul and the operations of neural networks on OpenCL devices.
//
//   using Card = ht::OpenCl<ht::Gpu>;                        // the first GPU; OpenCl<Gpu, 1> is the second
//   const auto w = HT_TRY(ht::to_device<Card>(weights));     // shares mapped pages where the card can
//   const auto x = HT_TRY(ht::to_device<Card>(input));
//   const auto y = HT_TRY(ht::opencl::matmul(x, w.transpose()));
//   const auto z = HT_TRY(ht::to_host(HT_TRY(y + y)));
//
// The OpenCL library is loaded by the first call that needs it. Without it, or without the device, calls
// return `device_unavailable`. The variable HT_OPENCL_GPU=any, read when devices are first listed, lets the
// Gpu stream use any OpenCL device. Contexts and built kernels live until the process ends; they do not
// survive a fork.
//
// Calls return when the device has finished, so tensors may be used from any queue and any thread afterwards.
// A call that names no queue uses the device's own one. Tensors larger than the device's largest allocation
// are split into several buffers; `matmul`, `softmax` and `rms_norm` need each tensor in one buffer and
// return `size_overflow` otherwise.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/device/transfer.hpp>
#include <htensor/dtype/relations.hpp>
#include <memory>
#include <type_traits>

namespace ht::inline v1 {

template <class Dev>
inline constexpr bool is_opencl = false;
template <class Stream, int Index>
inline constexpr bool is_opencl<OpenCl<Stream, Index>> = true;

/// A queue of the caller's own. Copies are handles to the same queue, which the last one releases.
class OpenClQueue {
 public:
  template <class Dev>
    requires is_opencl<Dev>
  [[nodiscard]] static Result<OpenClQueue> create() {
    return create(Dev::target);
  }

  struct Queue;
  [[nodiscard]] const Queue& queue() const noexcept { return *queue_; }

 private:
  [[nodiscard]] static Result<OpenClQueue> create(const detail::opencl::Target& target);
  explicit OpenClQueue(std::shared_ptr<const Queue> queue) noexcept : queue_(std::move(queue)) {}

  std::shared_ptr<const Queue> queue_;
};

namespace detail::opencl {

/// The result of a reduction in the type that its dtype is added up in.
struct Reduced {
  double floating = 0;
  std::int64_t integer = 0;
};

[[nodiscard]] Result<Reduced> reduce(const Target& target, Reduction reduction, const View& a,
                                     const OpenClOptions& options);
[[nodiscard]] Result<void> matmul(const Target& target, const View& a, const View& b, const View& out,
                                  const OpenClOptions& options);
[[nodiscard]] Result<void> softmax(const Target& target, const View& x, const View& out,
                                   const OpenClOptions& options);
[[nodiscard]] Result<void> rms_norm(const Target& target, const View& x, const View& weight, float epsilon,
                                    const View& out, const OpenClOptions& options);
[[nodiscard]] Result<void> silu(const Target& target, const View& x, const View& out,
                                const OpenClOptions& options);
[[nodiscard]] Error columns_and_rows_differ(layout::Extents a, layout::Extents b);
[[nodiscard]] Error weight_differs(layout::Extents x, layout::Extents weight);

template <class D>
using SumOf = std::conditional_t<std::same_as<D, F64>, double,
                                 std::conditional_t<IsFloating<D>, float,
                                                    std::conditional_t<std::is_signed_v<typename D::Element>,
                                                                       std::int64_t, std::uint64_t>>>;

template <class D>
[[nodiscard]] SumOf<D> value_of(const Reduced& reduced) noexcept {
  if constexpr (IsFloating<D>) {
    return static_cast<SumOf<D>>(reduced.floating);
  } else {
    return static_cast<SumOf<D>>(reduced.integer);
  }
}

}  // namespace detail::opencl

namespace opencl {

/// a op b as the operators do, on a queue: `combine(std::plus<>{}, a, b, {.queue = &queue})`.
/// `shape_mismatch`.
template <class Op, class A, class B, class S, class Dev>
  requires std::same_as<std::remove_const_t<A>, std::remove_const_t<B>> && is_opencl<Dev> &&
           Computes<Dev, slice::Core, A> &&
           (IsFloating<std::remove_const_t<A>> || !std::same_as<Op, std::divides<>>)
[[nodiscard]] Result<Tensor<std::remove_const_t<A>, S, Dev>> combine(Op op, const Tensor<A, S, Dev>& a,
                                                                     const Tensor<B, S, Dev>& b,
                                                                     const OpenClOptions& options = {}) {
  HT_TRY(layout::check_equal(a.shape().extents(), b.shape().extents()));
  auto out = HT_TRY(Tensor<std::remove_const_t<A>, S, Dev>::zeros(a.shape()));
  HT_TRY(Dev::elementwise(op, a, b, out, options));
  return out;
}

/// The sum of all elements: in float for dtypes of up to 32 bits, in double for F64, modulo 2^64 for
/// integers. The error of n F32 elements is at most (n / 1024 + 2) ε Σ|x|, where ε is 2^-23.
template <class D, class S, class Dev>
  requires is_opencl<Dev> && Computes<Dev, slice::Core, D>
[[nodiscard]] auto sum(const Tensor<D, S, Dev>& a, const OpenClOptions& options = {})
    -> Result<detail::opencl::SumOf<std::remove_const_t<D>>> {
  using detail::opencl::Reduction;
  const auto all =
      HT_TRY(detail::opencl::reduce(Dev::target, Reduction::sum, detail::opencl::view_of(a), options));
  return detail::opencl::value_of<std::remove_const_t<D>>(all);
}

/// The largest element, NaN where there is one. `bad_shape` for a tensor without elements.
template <class D, class S, class Dev>
  requires is_opencl<Dev> && Computes<Dev, slice::Core, D>
[[nodiscard]] auto max(const Tensor<D, S, Dev>& a, const OpenClOptions& options = {})
    -> Result<detail::opencl::SumOf<std::remove_const_t<D>>> {
  using detail::opencl::Reduction;
  const auto all =
      HT_TRY(detail::opencl::reduce(Dev::target, Reduction::max, detail::opencl::view_of(a), options));
  return detail::opencl::value_of<std::remove_const_t<D>>(all);
}

/// a[m, k] · b[k, n], of any strides. Products are added in the order of k, in the dtype: an element differs
/// from the exact one by at most k ε Σ|a||b|. `shape_mismatch`.
template <class A, class B, class SA, class SB, class Dev>
  requires std::same_as<std::remove_const_t<A>, std::remove_const_t<B>> && is_opencl<Dev> &&
           Computes<Dev, slice::Linear, A> && (SA::rank == 2) && (SB::rank == 2)
[[nodiscard]] Result<Tensor<std::remove_const_t<A>, Rank<2>, Dev>> matmul(const Tensor<A, SA, Dev>& a,
                                                                          const Tensor<B, SB, Dev>& b,
                                                                          const OpenClOptions& options = {}) {
  if (a.extent(1) != b.extent(0))
    return fail(detail::opencl::columns_and_rows_differ(a.shape().extents(), b.shape().extents()));
  auto out = HT_TRY(Tensor<std::remove_const_t<A>, Rank<2>, Dev>::zeros(Rank<2>(a.extent(0), b.extent(1))));
  using detail::opencl::view_of;
  HT_TRY(detail::opencl::matmul(Dev::target, view_of(a), view_of(b), view_of(out), options));
  return out;
}

/// softmax along the last dimension. The relative error of an element of a row of n is at most (n / 64 + 16)
/// ε, beside that of the exponent |x - max| ε.
template <class D, class S, class Dev>
  requires is_opencl<Dev> && Computes<Dev, slice::Nn, D> && (S::rank >= 1)
[[nodiscard]] Result<Tensor<std::remove_const_t<D>, S, Dev>> softmax(const Tensor<D, S, Dev>& x,
                                                                     const OpenClOptions& options = {}) {
  auto out = HT_TRY(Tensor<std::remove_const_t<D>, S, Dev>::zeros(x.shape()));
  using detail::opencl::view_of;
  HT_TRY(detail::opencl::softmax(Dev::target, view_of(x), view_of(out), options));
  return out;
}

/// x / √(mean(x²) + epsilon) · weight along the last dimension. `shape_mismatch` where the weight has another
/// length. The relative error of an element of a row of n is at most (n / 64 + 16) ε, where the sum of
/// squares is a normal F32 number.
template <class D, class W, class S, class SW, class Dev>
  requires std::same_as<std::remove_const_t<D>, std::remove_const_t<W>> && is_opencl<Dev> &&
           Computes<Dev, slice::Nn, D> && (S::rank >= 1) && (SW::rank == 1)
[[nodiscard]] Result<Tensor<std::remove_const_t<D>, S, Dev>> rms_norm(const Tensor<D, S, Dev>& x,
                                                                      const Tensor<W, SW, Dev>& weight,
                                                                      float epsilon = 1e-5F,
                                                                      const OpenClOptions& options = {}) {
  if (x.extent(S::rank - 1) != weight.extent(0))
    return fail(detail::opencl::weight_differs(x.shape().extents(), weight.shape().extents()));
  auto out = HT_TRY(Tensor<std::remove_const_t<D>, S, Dev>::zeros(x.shape()));
  using detail::opencl::view_of;
  HT_TRY(detail::opencl::rms_norm(Dev::target, view_of(x), view_of(weight), epsilon, view_of(out), options));
  return out;
}

/// x / (1 + e^-x) of each element, within 8 ε of the value.
template <class D, class S, class Dev>
  requires is_opencl<Dev> && Computes<Dev, slice::Nn, D>
[[nodiscard]] Result<Tensor<std::remove_const_t<D>, S, Dev>> silu(const Tensor<D, S, Dev>& x,
                                                                  const OpenClOptions& options = {}) {
  auto out = HT_TRY(Tensor<std::remove_const_t<D>, S, Dev>::zeros(x.shape()));
  using detail::opencl::view_of;
  HT_TRY(detail::opencl::silu(Dev::target, view_of(x), view_of(out), options));
  return out;
}

}  // namespace opencl
}  // namespace ht::inline v1
