// Where a tensor's elements may lie in a Storage: every check a Tensor makes before it hands out one.
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

/// A user's device that brings its own memory: a static `allocate(bytes)`.
template <class Dev>
concept Allocates = requires(std::uint64_t bytes) {
  { Dev::allocate(bytes) } -> std::same_as<Result<Storage>>;
};

}  // namespace ht::inline v1

namespace ht::inline v1::placement {

/// Bytes of a dense tensor; what is wrong with the shape where there is no such number.
[[nodiscard]] Result<std::uint64_t> dense_bytes(layout::Extents extents, int bits);

/// `size_mismatch` unless there is a value for each element.
[[nodiscard]] Result<void> check_value_count(layout::Extents extents, std::uint64_t values);

struct Claim {
  const Storage& storage;
  layout::Extents extents;
  layout::Extents strides;
  std::uint64_t offset;
  int bits;
  std::uint64_t alignment;
  bool writes;
  /// Whether the elements are for a device, whose memory the host does not read.
  bool on_device = false;
};

/// Whether all elements of the claim are bytes of its storage: `bad_shape`, `size_overflow`,
/// `bad_state` (read-only), `misaligned`, `out_of_bounds`.
[[nodiscard]] Result<void> check(const Claim& claim);

template <class Dev>
concept CanAllocate = Allocates<Dev> || std::same_as<Dev, Host>;

/// `options` name the queue of a device that has queues.
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

/// Where the first byte lies: in memory, or on the device in its own numbering.
[[nodiscard]] std::uint64_t first_address(const Storage& storage) noexcept;

template <class D>
[[nodiscard]] ElementPointer<D> element_pointer(const Storage& storage, std::uint64_t offset) {
  using DType = std::remove_const_t<D>;
  using Byte = std::conditional_t<std::is_const_v<D>, const std::byte, std::byte>;
  // A claim that writes was checked before.
  auto* first = reinterpret_cast<Byte*>(first_address(storage));  // NOLINT(performance-no-int-to-ptr)
  if (first != nullptr) first += offset;
  if constexpr (is_packed<DType>) {
    return PackedPointer<D>(first);
  } else {
    return reinterpret_cast<ElementPointer<D>>(first);
  }
}

/// The bytes that hold the elements from the lowest to the highest, counted from `data`.
template <class D>
[[nodiscard]] Bytes bytes_between(ElementPointer<D> data, layout::Reach reach) noexcept {
  if constexpr (is_packed<std::remove_const_t<D>>) {
    return data.bytes(reach.lowest, reach.highest);
  } else {
    return std::as_bytes(std::span(data + reach.lowest, data + reach.highest + 1));
  }
}

/// The bytes that a walk over all elements touches, and those between them.
template <class D>
[[nodiscard]] Result<Bytes> touched_bytes(ElementPointer<D> data, layout::Extents extents,
                                          layout::Extents strides) {
  if (std::ranges::find(extents, 0) != extents.end()) return Bytes();
  return bytes_between<D>(data, HT_TRY(layout::reach(extents, strides)));
}

/// `bad_state` for elements that are no run of whole bytes.
[[nodiscard]] Error not_contiguous(layout::Extents extents, layout::Extents strides);

/// The bytes of elements that follow each other.
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
