// Where the elements of a tensor may be in a Storage: the checks before a Tensor is constructed.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/device.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/tensor/layout.hpp>
#include <htensor/tensor/storage.hpp>
#include <span>
#include <type_traits>

namespace ht::inline v1 {

/// A device that allocates its own memory with a static `allocate(bytes)`.
template <class Dev>
concept Allocates = requires(std::uint64_t bytes) {
  { Dev::allocate(bytes) } -> std::same_as<Result<Storage>>;
};

}  // namespace ht::inline v1

namespace ht::inline v1::placement {

/// The size of a dense tensor in bytes. `bad_shape`, `size_overflow`.
[[nodiscard]] Result<std::uint64_t> dense_bytes(layout::Extents extents, int bits);

/// `size_mismatch` unless there is one value for each element.
[[nodiscard]] Result<void> check_value_count(layout::Extents extents, std::uint64_t values);

struct Claim {
  const Storage& storage;
  layout::Extents extents;
  layout::Extents strides;
  std::uint64_t offset;
  int bits;
  std::uint64_t alignment;
  bool writes;
  /// Whether the elements are for a device whose memory the host cannot read.
  bool on_device = false;
};

/// Checks that all elements of the claim are inside its storage. `bad_shape`, `size_overflow`, `bad_state`
/// (read-only), `misaligned`, `out_of_bounds`.
[[nodiscard]] Result<void> check(const Claim& claim);

template <class Dev>
concept CanAllocate = Allocates<Dev> || std::same_as<Dev, Host>;

/// Allocates zeroed memory on the device. `options` selects the queue of a device with queues.
template <CanAllocate Dev>
[[nodiscard]] Result<Storage> allocate(std::uint64_t bytes, const ComputeOptions& options = {}) {
  if constexpr (requires { Dev::allocate(bytes, options); }) {
    return Dev::allocate(bytes, options);
  } else if constexpr (Allocates<Dev>) {
    return Dev::allocate(bytes);
  } else {
    return Storage::owned(bytes);
  }
}

/// The address of the first byte: in host memory, or in the address space of the device.
[[nodiscard]] std::uint64_t first_address(const Storage& storage) noexcept;

template <class D>
[[nodiscard]] ElementPointer<D> element_pointer(const Storage& storage, std::uint64_t offset) {
  using DType = std::remove_const_t<D>;
  using Byte = std::conditional_t<std::is_const_v<D>, const std::byte, std::byte>;
  // `check` has verified that the storage is writable if D is mutable.
  auto* first = reinterpret_cast<Byte*>(first_address(storage));  // NOLINT(performance-no-int-to-ptr)
  if (first != nullptr) first += offset;
  if constexpr (is_packed<DType>) {
    return PackedPointer<D>(first);
  } else {
    return reinterpret_cast<ElementPointer<D>>(first);
  }
}

/// The bytes of the elements `lowest` to `highest`, relative to `data`.
template <class D>
[[nodiscard]] Bytes bytes_between(ElementPointer<D> data, layout::Reach reach) noexcept {
  if constexpr (is_packed<std::remove_const_t<D>>) {
    return data.bytes(reach.lowest, reach.highest);
  } else {
    return std::as_bytes(std::span(data + reach.lowest, data + reach.highest + 1));
  }
}

/// The byte range that contains all elements, including gaps between them.
template <class D>
[[nodiscard]] Result<Bytes> touched_bytes(ElementPointer<D> data, layout::Extents extents,
                                          layout::Extents strides) {
  if (std::ranges::find(extents, 0) != extents.end()) return Bytes();
  return bytes_between<D>(data, HT_TRY(layout::reach(extents, strides)));
}

/// The Error `bad_state` for elements that are not contiguous whole bytes.
[[nodiscard]] Error not_contiguous(layout::Extents extents, layout::Extents strides);

/// The bytes of contiguous elements. `bad_state` if they are not contiguous.
template <class D>
[[nodiscard]] Result<Bytes> dense_view(ElementPointer<D> data, layout::Extents extents,
                                       layout::Extents strides) {
  const std::byte* first = nullptr;
  if constexpr (is_packed<std::remove_const_t<D>>) {
    first = data.address();
  } else {
    first = reinterpret_cast<const std::byte*>(data);
  }
  const auto bytes = HT_TRY(dense_bytes(extents, std::remove_const_t<D>::bits));
  if (bytes == 0) return Bytes();
  if (first == nullptr || !layout::is_row_major(extents, strides)) {
    return fail(not_contiguous(extents, strides));
  }
  return Bytes(first, static_cast<std::size_t>(bytes));
}

}  // namespace ht::inline v1::placement
