// Devices: empty types that say which dtypes they store. Their runtimes live elsewhere.
//
// A device of your own is a struct with a name and a `stores`; see examples/consumer.
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

/// The memory of this process. It stores every dtype, users' own too.
struct Host {
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
