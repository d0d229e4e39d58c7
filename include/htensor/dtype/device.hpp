// Devices: empty types that list the dtypes that they store and the operations that they have.
//
// Operations are grouped in slices: `slice::Core` (allocate, copy, elementwise, reduce), `slice::Linear`
// (matmul, linear), `slice::Nn` (softmax, norms, activations, rope, argmax, embedding), `slice::Conv`. A
// device lists its slices in its definition. An operation requires `Computes<Dev, Slice, D>`: a call of an
// operation that the device lacks does not compile, and the message names the slice.
//
// A device of your own is an empty struct. Its static functions are called on the caller's thread, without a
// lock, and by several threads if several threads use the device:
//
//   struct Card {
//     using Slices = ht::SliceList<ht::slice::Core>;
//     static constexpr std::string_view name = "Card";
//     static constexpr bool is_host_accessible = false;     // true: host loops replace a missing `run`
//
//     template <class D>
//     static constexpr bool stores = D::bits == 32;
//
//     template <class Slice, class D>
//     static constexpr bool computes = std::same_as<D, ht::F32>;
//
//     static ht::Result<ht::Storage> allocate(std::uint64_t bytes);      // all zero; Storage::on_device(…)
//     static ht::Result<void> copy_to_device(ht::Bytes from, const ht::Storage& to, std::uint64_t offset);
//     static ht::Result<void> copy_to_host(const ht::Storage& from, std::uint64_t offset,
//                                          ht::MutableBytes to);
//     template <class Out, class A, class B>                // a + b; std::minus<> for a - b, and so on
//     static ht::Result<void> run(std::plus<>, const ht::ComputeOptions&, const Out& out,
//                                 const A& a, const B& b);
//   };
//
// The operations are listed below. `data()` of a tensor is an address in the device's address space. The
// Storage that `allocate` returns has an owner object (see `Storage::on_device`), which releases the memory
// when the last handle to the Storage is destroyed. If the host cannot access the memory, a call of an
// operation without `run` does not compile. `to_device` and `to_host` (htensor/device/transfer.hpp) call the
// copy functions, with at least one byte and with ranges inside the Storage. The library passes on the Errors
// of these functions. A device that can use host memory may have
// `share(const ht::Storage& owner, ht::Bytes bytes)`. `share` returns a Storage of the device over these
// bytes that keeps `owner` alive, or an empty Storage if the bytes must be copied. `allocate` and the copies
// may have a last parameter `const ht::ComputeOptions& options = {}`. examples/consumer has a device like
// this.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/dtype/dtypes.hpp>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>

// Operations of a device: empty types, or structs with the parameters of the operation.
//
// A device whose memory the host cannot read has a static function `run` for each operation that it offers:
//
//   template <class Out, class A, class B>
//   static ht::Result<void> run(std::plus<>, const ht::ComputeOptions&, const Out& out,
//                               const A& a, const B& b);
//
// The functions of htensor/compute check shapes, allocate the result and call `run`, so that `a + b`,
// `ht::softmax(x)` and all other operations have one name and one signature on every device. A call of an
// operation without `run` does not compile.
//
// Inputs may have any strides. `out` is contiguous and does not overlap the inputs. In the elementwise
// operations (`std::plus<>`, `std::minus<>`, `std::multiplies<>`, `std::divides<>`) and `Copy`, `out` may
// have any strides and may be one of the inputs. Extents are checked before the call.

namespace ht::inline v1 {

namespace operation {

/// out = x.
struct Copy {};
/// out[] = Σ x. The dtype of `out` is `ReductionOf` the dtype of x (htensor/compute/elementwise.hpp).
struct Sum {};
/// out[] = the largest element of x, or NaN if x contains NaN. The dtype of `out` is `ReductionOf` the dtype
/// of x, as for Sum. x is not empty.
struct Max {};
/// out = a · b, with the shapes of `ht::matmul`.
struct Matmul {};
/// out[…, i] = Σ x[…, j] · w[i, j], plus bias[i] if there is a third input.
struct Linear {};
/// out = the softmax of each row of x. A row is the last dimension; the rank is at least 1.
struct Softmax {};
/// out = the logarithm of the softmax of each row of x.
struct LogSoftmax {};
/// Inputs x and weight, whose size is that of a row. The formula is that of `ht::rms_norm`.
struct RmsNorm {
  double epsilon = 0;
};
/// Inputs x, weight and optionally bias, whose sizes are that of a row. The formula is that of
/// `ht::layer_norm`.
struct LayerNorm {
  double epsilon = 0;
};
/// out = x / (1 + e^-x).
struct Silu {};
/// out = the Gaussian error linear unit of x: GeluForm::tanh if `is_tanh`, else GeluForm::exact.
struct Gelu {
  bool is_tanh = false;
};
/// out = silu(gate) · x. Inputs gate and x, of the same shape.
struct Swiglu {};
/// Inputs x[tokens, heads, head size], cosines[tokens, pairs] and sines[tokens, pairs]. `is_interleaved` is
/// true for RopeOptions::Pairs::interleaved and false for `halves`. The first 2 · pairs elements of each head
/// are rotated, the others are copied.
struct Rope {
  bool is_interleaved = true;
};
/// `out` is I64: the index of the largest element of each row. Rows are not empty.
struct Argmax {};
/// out[i] = table[ids[i]]. Inputs table[rows, columns] and ids[n]. The ids are I64 and in [0, rows).
struct Embedding {};
/// Inputs x, weight and optionally bias, with the shapes of `ht::conv2d`, which has checked the options.
/// Pairs are {vertical, horizontal}.
struct Conv2d {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
};

}  // namespace operation

/// The device has a `run` for the operation on tensors of these types.
template <class Dev, class Op, class Out, class... In>
concept HasOperation =
    requires(const Op& op, const ComputeOptions& options, const Out& out, const In&... in) {
      { Dev::run(op, options, out, in...) } -> std::same_as<Result<void>>;
    };

class Storage;

/// An empty type with a name and `is_host_accessible`. Devices have no objects: all members are static.
template <class T>
concept IsDevice = std::is_empty_v<T> && requires {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::is_host_accessible } -> std::convertible_to<bool>;
};

/// A device whose memory this process can read and write directly.
template <class Dev>
concept HostAccessible = IsDevice<Dev> && Dev::is_host_accessible;

/// Whether `List` contains the dtype D.
template <class D, class List>
inline constexpr bool contains = false;
template <class D, class... Ds>
inline constexpr bool contains<D, DTypeList<Ds...>> = (std::same_as<D, Ds> || ...);

/// Whether the device stores the dtype. Specialise it to store a user-defined dtype on a device of the
/// library.
template <class Dev, class D>
inline constexpr bool stores = Dev::template stores<D>;

/// `stores` as a concept, so that error messages of the compiler name it.
template <class D, class Dev>
concept StoredBy = stores<Dev, D>;

/// The device stores the dtype: the requirement of `Tensor<D, S, Dev>`. `const D` counts as D.
template <class Dev, class D>
concept Compatible =
    IsDevice<Dev> && IsDType<std::remove_const_t<D>> && StoredBy<std::remove_const_t<D>, Dev>;

/// Slices of operations, which the top of this file lists.
namespace slice {
struct Core {};
struct Linear {};
struct Nn {};
struct Conv {};
}  // namespace slice

/// The slices of a device, as a type: `using Slices = ht::SliceList<ht::slice::Core, ht::slice::Nn>`.
template <class... Slices>
struct SliceList {};

namespace detail {

template <class Slice, class List>
inline constexpr bool lists_slice = false;
template <class Slice, class... Slices>
inline constexpr bool lists_slice<Slice, SliceList<Slices...>> = (std::same_as<Slice, Slices> || ...);

}  // namespace detail

/// The device lists the slice in its `Slices`.
template <class Dev, class Slice>
concept HasSlice =
    IsDevice<Dev> && requires { typename Dev::Slices; } && detail::lists_slice<Slice, typename Dev::Slices>;

/// The device has the operations of the slice for elements of D; `const D` counts as D. A device that has a
/// slice only for some dtypes declares a constant `computes<Slice, D>`, as at the top of this file. If
/// `computes` has D as its only parameter, `Computes` is false for all dtypes.
template <class Dev, class Slice, class D>
concept Computes = HasSlice<Dev, Slice> && Compatible<Dev, D> && (!requires {
                     Dev::template computes<Slice, std::remove_const_t<D>>;
                   } || Dev::template computes<Slice, std::remove_const_t<D>>) &&
                   !requires { Dev::template computes<std::remove_const_t<D>>; };

/// The memory and the processors of this process. It stores and copies every dtype, including user-defined
/// dtypes. slice::Core computes with every dtype that is a number, except Bool; the other slices compute with
/// F32 and F64 only.
struct Host {
  using Slices = SliceList<slice::Core, slice::Linear, slice::Nn, slice::Conv>;
  static constexpr std::string_view name = "Host";
  static constexpr bool is_host_accessible = true;
  template <class D>
  static constexpr bool stores = true;
  template <class Slice, class D>
  static constexpr bool computes =
      std::same_as<Slice, slice::Core> ? IsArithmetic<D> : contains<D, DTypeList<F32, F64>>;
};

// OpenCL. The functions are in the library (src/device). The first call loads the OpenCL library; without it,
// calls return `device_unavailable`. See htensor/device/transfer.hpp.
namespace detail::opencl {

// The largest number of OpenCL devices of one kind: `OpenCl::name` has room for an index of one digit.
inline constexpr int max_devices = 10;

struct Target {
  bool is_gpu = false;
  int index = 0;
  std::string_view name;
};

/// A type-erased tensor on a device.
struct View {
  const Storage* storage = nullptr;
  std::uint64_t address = 0;
  DTypeTag dtype{};
  std::size_t rank = 0;
  std::array<std::int64_t, 8> extents{};
  std::array<std::int64_t, 8> strides{};
};

// Kernels address whole bytes. Packed dtypes can be stored and copied, but not computed with.
template <class D>
concept HasWholeBytes = D::bits % 8 == 0;

template <class T>
[[nodiscard]] View view_of(const T& tensor) noexcept {
  View view{.storage = &tensor.storage(),
            .address = reinterpret_cast<std::uintptr_t>(tensor.data()),
            .dtype = T::DType::tag,
            .rank = static_cast<std::size_t>(T::rank)};
  std::ranges::copy(tensor.shape().extents(), view.extents.begin());
  std::ranges::copy(tensor.strides(), view.strides.begin());
  return view;
}

// These aliases depend on `Kind`, so that the compiler checks calls only when Storage is complete.
template <class Kind>
using TargetOf = std::conditional_t<Kind::is_gpu, Target, Target>;
template <class Kind>
using StorageOf = std::conditional_t<Kind::is_gpu, Storage, Storage>;

using Operation = std::variant<std::plus<>, std::minus<>, std::multiplies<>, std::divides<>, operation::Copy,
                               operation::Sum, operation::Max, operation::Matmul, operation::Linear,
                               operation::Softmax, operation::LogSoftmax, operation::RmsNorm,
                               operation::LayerNorm, operation::Silu, operation::Gelu, operation::Swiglu,
                               operation::Rope, operation::Argmax, operation::Embedding, operation::Conv2d>;

[[nodiscard]] Result<Storage> allocate(const Target& target, std::uint64_t bytes,
                                       const ComputeOptions& options);
[[nodiscard]] Result<Storage> share(const Target& target, const Storage& owner, Bytes bytes);
[[nodiscard]] Result<void> copy_to_device(const Target& target, Bytes from, const Storage& to,
                                          std::uint64_t offset, const ComputeOptions& options);
[[nodiscard]] Result<void> copy_to_host(const Target& target, const Storage& from, std::uint64_t offset,
                                        MutableBytes into, const ComputeOptions& options);
[[nodiscard]] Result<void> run(const Target& target, const Operation& operation, const View& out,
                               std::span<const View> inputs, const ComputeOptions& options);

}  // namespace detail::opencl

/// The two kinds of OpenCL device. GPUs may lack double precision, so `Gpu` does not store F64. `to_device`
/// and `to_host` move bytes and work for every dtype of `DTypes`. Kernels of slice::Core, which include
/// `copy`, compute with `Numbers`, kernels of the other slices with `Floats`.
struct Gpu {
  static constexpr std::string_view kind_name = "Gpu";
  static constexpr bool is_gpu = true;
  using DTypes = DTypeList<Bool, U4, I4, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E4M3, F8_E5M2, F8_E4M3FNUZ,
                           F8_E5M2FNUZ, F8_E8M0, U16, I16, F16, BF16, U32, I32, F32, U64, I64, C64>;
  using Numbers = DTypeList<U8, I8, U16, I16, F16, BF16, U32, I32, F32, U64, I64>;
  using Floats = DTypeList<F32>;
};
struct Cpu {
  static constexpr std::string_view kind_name = "Cpu";
  static constexpr bool is_gpu = false;
  using DTypes = AllDTypes;
  using Numbers = DTypeList<U8, I8, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64>;
  using Floats = DTypeList<F32, F64>;
};

/// The OpenCL device number `Index` of a kind, counted from 0. A process may use several devices. Calls
/// return `device_unavailable` if the machine has no such device or no OpenCL library, and `out_of_memory` if
/// the device has too little memory. Queues, threads, forks and error bounds: htensor/device/transfer.hpp.
template <class Kind, int Index = 0>
  requires(Index >= 0 && Index < detail::opencl::max_devices)
struct OpenCl {
  using Slices = SliceList<slice::Core, slice::Linear, slice::Nn, slice::Conv>;
  static constexpr bool is_host_accessible = false;
  template <class D>
  static constexpr bool stores = contains<D, typename Kind::DTypes>;
  template <class Slice, class D>
  static constexpr bool computes = std::same_as<Slice, slice::Core> ? contains<D, typename Kind::Numbers>
                                                                    : contains<D, typename Kind::Floats>;

 private:
  // "OpenCl<Gpu>", "OpenCl<Gpu, 1>".
  static constexpr std::array<char, 14> name_text{'O',
                                                  'p',
                                                  'e',
                                                  'n',
                                                  'C',
                                                  'l',
                                                  '<',
                                                  Kind::kind_name[0],
                                                  Kind::kind_name[1],
                                                  Kind::kind_name[2],
                                                  Index == 0 ? '>' : ',',
                                                  ' ',
                                                  '0' + Index,
                                                  '>'};

 public:
  static constexpr std::string_view name{name_text.data(), Index == 0 ? 11U : 14U};
  static constexpr detail::opencl::TargetOf<Kind> target{Kind::is_gpu, Index, name};

  [[nodiscard]] static Result<detail::opencl::StorageOf<Kind>> allocate(std::uint64_t bytes,
                                                                        const ComputeOptions& options = {}) {
    return detail::opencl::allocate(target, bytes, options);
  }
  [[nodiscard]] static Result<detail::opencl::StorageOf<Kind>> share(const Storage& owner, Bytes bytes) {
    return detail::opencl::share(target, owner, bytes);
  }
  [[nodiscard]] static Result<void> copy_to_device(Bytes from, const Storage& to, std::uint64_t offset,
                                                   const ComputeOptions& options = {}) {
    return detail::opencl::copy_to_device(target, from, to, offset, options);
  }
  [[nodiscard]] static Result<void> copy_to_host(const Storage& from, std::uint64_t offset, MutableBytes into,
                                                 const ComputeOptions& options = {}) {
    return detail::opencl::copy_to_host(target, from, offset, into, options);
  }
  template <class Op, class Out, class... In>
    requires std::constructible_from<detail::opencl::Operation, const Op&> &&
             detail::opencl::HasWholeBytes<typename Out::DType> &&
             (detail::opencl::HasWholeBytes<typename In::DType> && ...)
  [[nodiscard]] static Result<void> run(const Op& op, const ComputeOptions& options, const Out& out,
                                        const In&... in) {
    const std::array<detail::opencl::View, sizeof...(In)> inputs{detail::opencl::view_of(in)...};
    return detail::opencl::run(target, detail::opencl::Operation(op), detail::opencl::view_of(out), inputs,
                               options);
  }
};

}  // namespace ht::inline v1
