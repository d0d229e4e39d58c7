// OpenCL devices and their queues. The operations of htensor/compute have the same names as on the host.
//
//   using Card = ht::OpenCl<ht::Gpu>;                        // the first GPU; OpenCl<Gpu, 1> is the second
//   const auto w = HT_TRY(ht::to_device<Card>(weights));     // shares mapped pages if the card can
//   const auto x = HT_TRY(ht::to_device<Card>(input));
//   const auto y = HT_TRY(ht::linear(x, w));
//   const auto z = HT_TRY(ht::to_host(HT_TRY(y + y)));
//
//   const auto queue = HT_TRY(ht::OpenClQueue::create<Card>());
//   const auto s = HT_TRY(ht::softmax(y, {.queue = &queue}));
//
// The OpenCL library is loaded by the first call that needs it. Without it, or without the device, calls
// return `device_unavailable`. The variable HT_OPENCL_GPU=any, read when devices are first listed, lets the
// Gpu stream use any OpenCL device. Contexts and built kernels live until the process ends; they do not
// survive a fork.
//
// Calls return when the device has finished, so tensors may be used from any queue and any thread afterwards.
// A call without a queue uses the default queue of the device. Tensors larger than the device's largest
// allocation are split into several buffers. Copies, elementwise operations, `sum`, `max`, `silu`, `gelu` and
// `swiglu` work on them; other operations need each tensor in one buffer and return `size_overflow`
// otherwise.
//
// Error bounds of the operations on OpenCL devices, which add in the dtype D. ε is 2^-23 for F32 and 2^-52
// for F64, n is the length of a row, y is the exact result:
//
//   matmul, linear   k ε Σ|a b|, and ε |y| with a bias
//   sum              (n / 1024 + 12) ε Σ|x|, where n is the number of elements
//   softmax          (n / 64 + 16 + |x - max|) ε |y|
//   log_softmax      (n / 64 + 16) ε + 2 ε |y|
//   rms_norm         (n / 64 + 16) ε |y|, where the sum of squares is a normal number of D
//   layer_norm       (n / 16 + 64) ε (M / σ) |weight| + ε |y| for M = max |x|, σ = √(variance + epsilon)
//   silu, swiglu     8 ε |y|, where |y| is at least 2^-100 (F32) or 2^-1000 (F64)
//   gelu             (32 + 4 x²) ε |y| (exact), (16 + 8 |x| + x²|x|) ε |y| (tanh); same range
//   rope             4 ε (|a| + |b|) for a pair (a, b), and 2^-48 of the angle
//   conv2d           (k + 1) ε Σ|weight x| + ε |y|
#pragma once

#include <htensor/device/transfer.hpp>
#include <memory>
#include <utility>

namespace ht::inline v1 {

template <class Dev>
inline constexpr bool is_opencl = false;
template <class Stream, int Index>
inline constexpr bool is_opencl<OpenCl<Stream, Index>> = true;

/// A queue that the caller owns. Copies are handles to one queue; destroying the last copy releases it.
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

}  // namespace ht::inline v1
