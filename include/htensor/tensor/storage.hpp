// Bytes and the object that owns them.
//
//   const auto own = HT_TRY(ht::Storage::owned(4096));          // zeroed; released with the last handle
//   const auto lent = HT_TRY(ht::Storage::borrowed(buffer));    // the caller keeps `buffer` valid
//   const auto x = HT_TRY(ht::Tensor<ht::F32, ht::Rank<2>>::over(own, ht::Rank<2>(16, 64)));
//
// A Storage is a handle: copies share the bytes, and destroying the last copy releases them. A Storage does
// not access files or devices: the code that maps a file or allocates on a device passes in an owner object,
// which releases the bytes. Many threads may copy and destroy handles; the caller synchronizes writes to
// shared bytes.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/dtype/device.hpp>
#include <htensor/dtype/packed.hpp>
#include <htensor/tensor/shape.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <variant>

namespace ht::inline v1 {

/// Bytes, their owner and their origin. Copying a handle costs an atomic increment. All functions that create
/// a Storage allocate a control block and so may return `out_of_memory`; they copy no bytes.
class Storage {
 public:
  /// Memory that the Storage or its owner object releases.
  struct Owned {};
  /// Memory of the caller. It must stay valid until the last handle is destroyed.
  struct Borrowed {};
  /// A range of a file. A writer may copy the bytes from the file instead of from memory.
  struct FileBacked {
    std::filesystem::path path;
    /// The position of the range in the file, and its size.
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    /// The device and the inode identify the mapped file, even if its path now names another file. Both are 0
    /// if unknown.
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };
  /// Memory of a device that the host cannot access.
  struct OnDevice {
    std::string device;
    std::uint64_t bytes = 0;
    /// The address of the first byte on the device. The library computes the addresses of tensors from it and
    /// never dereferences them. If device memory has no addresses, keep the default: the byte offset of a
    /// tensor is then `data()` - 4096.
    std::uint64_t address = 4096;
    /// Whether the device may write.
    bool writable = true;
  };
  using Origin = std::variant<Owned, Borrowed, FileBacked, OnDevice>;

  static constexpr std::uint64_t default_alignment = 64;

  /// An empty Storage: no bytes, read-only, without an owner. Its origin is Borrowed.
  Storage() noexcept = default;

  /// Allocates zeroed memory. Pages of a large allocation take physical memory on first access, and are huge
  /// pages if the system has them. `out_of_memory`; `misaligned` if `alignment` is not a power of two.
  [[nodiscard]] static Result<Storage> owned(std::uint64_t bytes,
                                             std::uint64_t alignment = default_alignment);
  /// Memory of the caller. It must stay valid until the last handle is destroyed.
  [[nodiscard]] static Result<Storage> borrowed(MutableBytes bytes);
  /// The same, read-only: a mutable Tensor over it is `bad_state`.
  [[nodiscard]] static Result<Storage> borrowed_read_only(Bytes bytes);
  /// Memory that `owner` releases when the last handle is destroyed, for example from a device's allocator.
  /// Pass `may_be_mapped` if the memory may be private pages of a file, whose reads can fail.
  [[nodiscard]] static Result<Storage> owned_by(std::shared_ptr<const void> owner, MutableBytes bytes,
                                                bool may_be_mapped = false);
  /// The same, read-only.
  [[nodiscard]] static Result<Storage> owned_read_only(std::shared_ptr<const void> owner, Bytes bytes);
  /// Read-only bytes of a file that `owner` keeps mapped.
  [[nodiscard]] static Result<Storage> file_backed(std::shared_ptr<const void> owner, Bytes bytes,
                                                   FileBacked range);

  /// A range of a file that is not mapped. Does not open the file: a wrong path or range is an Error of the
  /// function that reads it. `bytes()` is empty; a writer copies the bytes from the file.
  [[nodiscard]] static Result<Storage> in_file(FileBacked range);
  /// Memory on a device, which `owner` releases. `bytes()` is empty.
  [[nodiscard]] static Result<Storage> on_device(std::shared_ptr<const void> owner, OnDevice where);

  /// The bytes in host memory; empty for `in_file`, for device memory and for an empty Storage. Valid as long
  /// as a handle exists. Reads of mapped pages may fail: see base/fault.hpp.
  [[nodiscard]] Bytes bytes() const noexcept;
  /// Whether `writable_bytes` succeeds. False for files, device memory and bytes that were passed as
  /// read-only.
  [[nodiscard]] bool is_writable() const noexcept;
  /// Whether the bytes may be mapped pages of a file, whose reads can fail. False for `Storage()`, and for
  /// `Owned` unless it was created with `may_be_mapped`; true for all other storages.
  [[nodiscard]] bool may_be_mapped() const noexcept;
  /// The bytes, for writes. `bad_state` for read-only bytes. The caller synchronizes writes.
  [[nodiscard]] Result<MutableBytes> writable_bytes() const;
  /// The kind of memory. The reference is valid as long as a handle exists.
  [[nodiscard]] const Origin& origin() const noexcept;
  /// The owner object, null if there is none. Devices identify their memory by this object.
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept;

  /// Whether both handles are copies of one Storage, or both are empty. Bytes are not compared.
  friend bool operator==(const Storage&, const Storage&) noexcept = default;

 private:
  struct Block;
  explicit Storage(std::shared_ptr<const Block> block) noexcept;
  [[nodiscard]] static Result<Storage> make(std::shared_ptr<const void> owner, MutableBytes bytes,
                                            bool writable, Origin origin, bool may_be_mapped = false);

  std::shared_ptr<const Block> block_;
};

static_assert(sizeof(Storage) == 2 * sizeof(void*));

/// A device that allocates its own memory with a static `allocate(bytes)`.
template <class Dev>
concept Allocates = requires(std::uint64_t bytes) {
  { Dev::allocate(bytes) } -> std::same_as<Result<Storage>>;
};

}  // namespace ht::inline v1

// Allocates memory for the elements of a Tensor, checks that they are inside its Storage before the Tensor is
// constructed, and finds their bytes.

namespace ht::inline v1::placement {

/// The size of a dense tensor in bytes. `bad_shape`, `size_overflow`.
[[nodiscard]] Result<std::uint64_t> dense_bytes(layout::Extents extents, int bits);

/// `size_mismatch` unless there is one value for each element.
[[nodiscard]] Result<void> check_value_count(layout::Extents extents, std::uint64_t values);

/// The elements that a Tensor would have in a Storage. `offset` is the byte of element (0, 0, …).
struct ElementPlacement {
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

/// Checks that all elements are inside the storage. `bad_shape`, `size_overflow`, `misaligned`,
/// `out_of_bounds`; `bad_state` if they are written to read-only bytes, or if they are for the host and the
/// storage is device memory.
[[nodiscard]] Result<void> check(const ElementPlacement& elements);

/// Tensors on the device can be allocated: by its `allocate`, or in memory of the host.
template <class Dev>
concept CanAllocate = Allocates<Dev> || std::same_as<Dev, Host>;

/// Allocates zeroed memory on the device. `options` selects the queue of a device with queues.
/// `out_of_memory`, and the errors of the device.
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

/// The elements that start at the byte `offset`; null if the storage has no memory. The caller has called
/// `check`, and keeps a handle to the storage.
template <class D>
[[nodiscard]] ElementPointer<D> element_pointer(const Storage& storage, std::uint64_t offset) {
  using DType = std::remove_const_t<D>;
  using Byte = std::conditional_t<std::is_const_v<D>, const std::byte, std::byte>;
  // `check` has verified that the storage is writable if D is mutable.
  auto* first = reinterpret_cast<Byte*>(first_address(storage));  // NOLINT(performance-no-int-to-ptr)
  if (first != nullptr) first += offset;
  if constexpr (is_packed<DType>) {
    return detail::PackedPointer<D>(first);
  } else {
    return reinterpret_cast<ElementPointer<D>>(first);
  }
}

/// Elements of `bits` bits each. The first element is `index` elements after `base`.
struct Elements {
  const std::byte* base;
  std::int64_t index;
  int bits;
};

/// The elements of a pointer, without their type.
template <class D>
[[nodiscard]] Elements elements_of(ElementPointer<D> data) noexcept {
  if constexpr (is_packed<std::remove_const_t<D>>) {
    return {data.base(), data.index(), D::bits};
  } else {
    return {reinterpret_cast<const std::byte*>(data), 0, D::bits};
  }
}

/// The bytes of the elements `lowest` to `highest`, both included.
[[nodiscard]] Bytes bytes_between(const Elements& elements, layout::OffsetRange offsets) noexcept;
template <class D>
[[nodiscard]] Bytes bytes_between(ElementPointer<D> data, layout::OffsetRange offsets) noexcept {
  return bytes_between(elements_of<D>(data), offsets);
}

/// The byte range that contains all elements, including gaps between them; empty for a view without elements.
/// `size_overflow` if an offset exceeds 63 bits.
[[nodiscard]] Result<Bytes> touched_bytes(const Elements& elements, layout::Extents extents,
                                          layout::Extents strides);
template <class D>
[[nodiscard]] Result<Bytes> touched_bytes(ElementPointer<D> data, layout::Extents extents,
                                          layout::Extents strides) {
  return touched_bytes(elements_of<D>(data), extents, strides);
}

/// The bytes of contiguous elements. `bad_state` unless they are contiguous and start on a byte boundary.
[[nodiscard]] Result<Bytes> dense_view(const Elements& elements, layout::Extents extents,
                                       layout::Extents strides);
template <class D>
[[nodiscard]] Result<Bytes> dense_view(ElementPointer<D> data, layout::Extents extents,
                                       layout::Extents strides) {
  return dense_view(elements_of<D>(data), extents, strides);
}

}  // namespace ht::inline v1::placement
