// Devices: transfers between the host and a device, a list of devices, and OpenCL queues. Only `to_device`
// and `to_host` move tensors.
//
//   const auto w = HT_TRY(model.tensor<ht::F32, ht::Rank<2>>("w"));             // mapped, read-only
//   const auto there = HT_TRY(ht::to_device<ht::OpenCl<ht::Gpu>>(w));
//   const auto sum = HT_TRY(there + there);                                     // on the device
//   const auto back = HT_TRY(ht::to_host(sum));                                 // Tensor<F32, Rank<2>>
//   for (const ht::DeviceDescription& d : HT_TRY(ht::devices())) print(d.name, d.hardware, d.memory);
//
// A tensor on a device shares ownership of the device's memory, as do its slices and transposes. Many threads
// may copy, destroy and transfer tensors at once. `to_device` and `to_host` return when the transfer is
// complete. A mapped page that cannot be read is an Error that names its file.
#pragma once

#include <concepts>
#include <cstdint>
#include <htensor/base/fault.hpp>
#include <htensor/base/result.hpp>
#include <htensor/tensor/tensor.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ht::inline v1 {

/// A device with its own memory and with copies between that memory and the host. Each copy has at least one
/// byte, because the address of an empty tensor may be null.
template <class Dev>
concept Transfers = IsDevice<Dev> && Allocates<Dev> &&
                    requires(Bytes from, MutableBytes into, const Storage& storage, std::uint64_t offset) {
                      { Dev::copy_to_device(from, storage, offset) } -> std::same_as<Result<void>>;
                      { Dev::copy_to_host(storage, offset, into) } -> std::same_as<Result<void>>;
                    };

/// A device that can use host memory without a copy.
template <class Dev>
concept Shares = requires(const Storage& owner, Bytes bytes) {
  { Dev::share(owner, bytes) } -> std::same_as<Result<Storage>>;
};

namespace detail {

// These functions call the copy functions of a device, with `options` if the device accepts them.
template <class Dev>
[[nodiscard]] Result<void> copy_bytes_to(Bytes from, const Storage& to, const ComputeOptions& options) {
  if constexpr (requires { Dev::copy_to_device(from, to, std::uint64_t{0}, options); }) {
    return Dev::copy_to_device(from, to, 0, options);
  } else {
    return Dev::copy_to_device(from, to, 0);
  }
}
template <class Dev>
[[nodiscard]] Result<void> copy_bytes_from(const Storage& from, std::uint64_t offset, MutableBytes into,
                                           const ComputeOptions& options) {
  if constexpr (requires { Dev::copy_to_host(from, offset, into, options); }) {
    return Dev::copy_to_host(from, offset, into, options);
  } else {
    return Dev::copy_to_host(from, offset, into);
  }
}

}  // namespace detail

/// Returns a contiguous tensor on a device with the same elements. The memory of a contiguous read-only
/// tensor is shared if the device can use it: nothing is copied, and the elements must not change while the
/// device uses them. A mutable tensor is always copied. `options` selects the queue of a device with queues.
/// `out_of_memory`, `read_failed` or `changed_underfoot` for an unreadable mapped page, and the errors of the
/// device, such as `device_unavailable`.
template <class Dev, class D, class S, class From>
  requires Compatible<Dev, D> && Transfers<Dev> && HostAccessible<From>
[[nodiscard]] Result<Tensor<D, S, Dev>> to_device(const Tensor<D, S, From>& tensor,
                                                  const ComputeOptions& options = {}) {
  const auto dense = tensor.bytes();
  if constexpr (Shares<Dev> && std::is_const_v<D>) {
    if (dense && !dense->empty()) {
      auto shared = HT_TRY(guarded(*dense, [&] { return Dev::share(tensor.storage(), *dense); }));
      if (shared != Storage()) return Tensor<D, S, Dev>::over(std::move(shared), tensor.shape());
    }
  }
  // A tensor that is not contiguous is first copied to contiguous memory of the host, because the device may
  // have no copy kernel for a dtype that it stores.
  Bytes bytes;
  Storage copied;
  if (dense) {
    bytes = *dense;
  } else {
    const auto copy = HT_TRY(tensor.copy());
    bytes = HT_TRY(copy.bytes());
    copied = copy.storage();
  }
  auto storage = HT_TRY(placement::allocate<Dev>(bytes.size(), options));
  if (bytes.empty()) return Tensor<D, S, Dev>::over(std::move(storage), tensor.shape());
  HT_TRY(guarded(bytes, [&] { return detail::copy_bytes_to<Dev>(bytes, storage, options); }));
  return Tensor<D, S, Dev>::over(std::move(storage), tensor.shape());
}

/// Returns the tensor itself, so that code generic in the device needs no special case for the host.
template <class Dev, class D, class S>
  requires std::same_as<Dev, Host>
[[nodiscard]] Result<Tensor<D, S>> to_device(const Tensor<D, S>& tensor, const ComputeOptions& = {}) {
  return tensor;
}

namespace detail {

/// The largest index that is at most `element` and whose element starts on a byte boundary.
template <class D>
[[nodiscard]] std::int64_t index_at_byte_boundary(ElementPointer<D> data, std::int64_t element) noexcept {
  if constexpr (is_packed<std::remove_const_t<D>>) {
    while ((data + element).address() == nullptr) --element;
  }
  return element;
}

}  // namespace detail

/// Returns a contiguous copy in host memory. A view with gaps between its elements is transferred with the
/// gaps, and its elements are gathered on the host.
template <class D, class S, class Dev>
  requires Transfers<Dev>
[[nodiscard]] Result<Tensor<std::remove_const_t<D>, S>> to_host(const Tensor<D, S, Dev>& tensor,
                                                                const ComputeOptions& options = {}) {
  using DType = std::remove_const_t<D>;
  using HostTensor = Tensor<DType, S>;
  const auto extents = tensor.shape().extents();
  if (tensor.elements() == 0) return HostTensor::zeros(tensor.shape());
  const auto offsets = HT_TRY(layout::offset_range(extents, tensor.strides()));
  const std::int64_t first = detail::index_at_byte_boundary<D>(tensor.data(), offsets.lowest);
  const Bytes range = placement::bytes_between<D>(tensor.data(), {first, offsets.highest});
  const auto offset =
      reinterpret_cast<std::uintptr_t>(range.data()) - placement::first_address(tensor.storage());
  auto storage = HT_TRY(placement::allocate<typename HostTensor::Device>(range.size()));
  const auto into = HT_TRY(storage.writable_bytes());
  HT_TRY(detail::copy_bytes_from<Dev>(tensor.storage(), offset, into, options));
  if (first == 0 && tensor.is_contiguous()) return HostTensor::over(std::move(storage), tensor.shape());
  auto gathered = HT_TRY(HostTensor::zeros(tensor.shape()));
  const auto from = placement::element_pointer<const DType>(storage, 0) + -first;
  auto to = gathered.data();
  detail::for_each_run(
      extents,
      [&](const detail::Run<1>& run) {
        for (std::int64_t i = 0; i < run.count; ++i)
          to[i] = static_cast<typename DType::Element>(from[run.offsets[0] + i * run.strides[0]]);
        to = to + run.count;
      },
      tensor.strides());
  return gathered;
}

/// Returns the tensor itself, which is already on the host.
template <class D, class S>
[[nodiscard]] Result<Tensor<D, S>> to_host(const Tensor<D, S>& tensor, const ComputeOptions& = {}) {
  return tensor;
}

// The devices of this machine, for programs that choose one at run time or show them.

struct DeviceDescription {
  /// How the device is spelled in C++: "Host", "OpenCl<Cpu>", "OpenCl<Gpu, 1>".
  std::string name;
  /// The name that the driver reports; empty for the host.
  std::string hardware;
  /// Bytes of memory; 0 if unknown.
  std::uint64_t memory = 0;
  /// The dtypes of the library that the device stores.
  std::vector<std::string_view> dtypes;
  /// The slices of operations that the device has: "core", "linear", "nn", "conv".
  std::vector<std::string_view> slices;
};

/// Lists the host first, then the OpenCL devices of this machine. Loads the OpenCL library; if it is not
/// installed, the list has only the host. A device that serves both `Cpu` and `Gpu` is listed twice.
[[nodiscard]] Result<std::vector<DeviceDescription>> devices();

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
// return `device_unavailable`. The variable HT_OPENCL_GPU=any, read when devices are first listed, lets `Gpu`
// use any OpenCL device. Contexts and built kernels live until the process ends; they do not survive a fork.
//
// A call returns when the device has finished, so its result may be used on any queue and any thread. A call
// without a queue uses the default queue of the device. Tensors larger than the device's largest allocation
// are split into several buffers. Copies, elementwise operations, `sum`, `max`, `silu`, `gelu` and `swiglu`
// accept tensors in several buffers; other operations return `size_overflow` for them.
//
// Error bounds of the operations on OpenCL devices, which add in the dtype D of the result. ε is 2^-23 for
// F32 and 2^-52 for F64, n is the length of a row, k is the number of products in a sum, y is the exact
// result:
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

template <class Dev>
inline constexpr bool is_opencl = false;
template <class Kind, int Index>
inline constexpr bool is_opencl<OpenCl<Kind, Index>> = true;

/// A command queue of an OpenCL device. Copies are handles to one queue; destroying the last copy releases
/// it.
class OpenClQueue {
 public:
  /// Creates a queue of the device, as Result<OpenClQueue>. `device_unavailable` if it does not exist.
  template <class Dev>
    requires is_opencl<Dev>
  [[nodiscard]] static auto create() {
    return create(Dev::target);
  }

  /// For internal use: the queue of the OpenCL library.
  struct Queue;
  [[nodiscard]] const Queue& queue() const noexcept { return *queue_; }

 private:
  [[nodiscard]] static Result<OpenClQueue> create(const detail::opencl::Target& target);
  explicit OpenClQueue(std::shared_ptr<const Queue> queue) noexcept;

  std::shared_ptr<const Queue> queue_;
};

}  // namespace ht::inline v1
