// Devices: empty types that list the dtypes they store and the operations they have.
//
// Operations come in slices: `slice::Core` (allocate, copy, elementwise, reduce), `slice::Linear` (matmul),
// `slice::Nn` (softmax, norms, activations), `slice::Conv`. A device lists its slices in its definition. An
// operation asks for `Computes<Dev, Slice, D>`, so that code which uses an operation that the device lacks
// does not compile, and the message names the slice.
//
// A device of your own is a struct with a name, `stores` and, if it computes, `Slices` and `computes`; see
// examples/consumer.
#pragma once

#include <concepts>
#include <htensor/dtype/dtypes.hpp>
#include <string_view>
#include <type_traits>

namespace ht::inline v1 {

template <class T>
concept IsDevice = std::is_empty_v<T> && requires {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::host_accessible } -> std::convertible_to<bool>;
};

/// A device whose memory this process can read and write like its own.
template <class Dev>
concept HostAccessible = IsDevice<Dev> && Dev::host_accessible;

/// `List` names the dtype D.
template <class D, class List>
inline constexpr bool contains = false;
template <class D, class... Ds>
inline constexpr bool contains<D, DTypeList<Ds...>> = (std::same_as<D, Ds> || ...);

/// Whether the device takes the dtype. Specialise it to put your own dtype on a library's device.
template <class Dev, class D>
inline constexpr bool stores = Dev::template stores<D>;

template <class D, class Dev>
concept StoredBy = stores<Dev, D>;

/// What `Tensor` asks where its type is spelled; a read-only `const D` is as good as D.
template <class Dev, class D>
concept Compatible =
    IsDevice<Dev> && IsDType<std::remove_const_t<D>> && StoredBy<std::remove_const_t<D>, Dev>;

/// Slices of operations.
namespace slice {
struct Core {};
struct Linear {};
struct Nn {};
struct Conv {};
}  // namespace slice

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

/// The device calculates with elements of D in the operations of the slice; a read-only `const D` is as good
/// as D. `Dev::computes<Slice, D>` lists dtypes where a device has the slice for some of them only.
template <class Dev, class Slice, class D>
concept Computes = HasSlice<Dev, Slice> && Compatible<Dev, D> && (!requires {
                     Dev::template computes<Slice, std::remove_const_t<D>>;
                   } || Dev::template computes<Slice, std::remove_const_t<D>>);

/// The memory and the processors of this process. It stores every dtype, users' own too.
struct Host {
  using Slices = SliceList<slice::Core, slice::Linear, slice::Nn, slice::Conv>;
  static constexpr std::string_view name = "Host";
  static constexpr bool host_accessible = true;
  template <class D>
  static constexpr bool stores = true;
};

/// The two kinds of OpenCL queue. GPUs need not know double precision, so F64 is not among theirs.
struct Gpu {
  static constexpr std::string_view device_name = "OpenCl<Gpu>";
  using DTypes = DTypeList<Bool, U4, I4, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E4M3, F8_E5M2, F8_E4M3FNUZ,
                           F8_E5M2FNUZ, F8_E8M0, U16, I16, F16, BF16, U32, I32, F32, U64, I64, C64>;
};
struct Cpu {
  static constexpr std::string_view device_name = "OpenCl<Cpu>";
  using DTypes = AllDTypes;
};

/// OpenCL, one family over its streams: one template over `OpenCl<S>` serves both.
template <class Stream>
struct OpenCl {
  static constexpr std::string_view name = Stream::device_name;
  static constexpr bool host_accessible = false;
  template <class D>
  static constexpr bool stores = contains<D, typename Stream::DTypes>;
};

}  // namespace ht::inline v1
