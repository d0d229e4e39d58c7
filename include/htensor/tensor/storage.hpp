// Bytes and the object that owns them.
//
// A Storage is a handle: copies share the bytes, and destroying the last copy releases them. It does not
// access files or devices: their modules pass in an owner object, which it holds. Many threads may copy and
// destroy handles; the caller synchronizes writes to shared bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <memory>
#include <string>
#include <variant>

namespace ht::inline v1 {

class Storage {
 public:
  /// Memory that the Storage or its owner object releases.
  struct Owned {};
  /// Memory of the caller, who must keep it valid until the last handle is destroyed.
  struct Borrowed {};
  /// A range of a file. A writer may copy the bytes from the file instead of from memory.
  struct FileBacked {
    std::filesystem::path locator;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    /// Identify the mapped file even if its path now names another file. Both are 0 if unknown.
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };
  /// Memory of a device that the host cannot access.
  struct OnDevice {
    std::string device;
    std::uint64_t bytes = 0;
    /// The address of the first byte on the device. The library computes the addresses of tensors from it
    /// and never dereferences them. A device without addresses keeps the default and subtracts it.
    std::uint64_t address = 4096;
    /// Whether the device may write.
    bool writable = true;
  };
  using Origin = std::variant<Owned, Borrowed, FileBacked, OnDevice>;

  static constexpr std::uint64_t default_alignment = 64;

  /// No bytes.
  Storage() noexcept = default;

  /// Allocates zeroed memory. Large allocations take physical pages on first access only. `out_of_memory`.
  [[nodiscard]] static Result<Storage> owned(std::uint64_t bytes,
                                             std::uint64_t alignment = default_alignment);
  [[nodiscard]] static Result<Storage> borrowed(MutableBytes bytes);
  /// Only read-only tensors can view this storage.
  [[nodiscard]] static Result<Storage> borrowed_read_only(Bytes bytes);
  /// Memory that `owner` releases when the last handle is destroyed, for example from a device's allocator.
  [[nodiscard]] static Result<Storage> kept_by(std::shared_ptr<const void> owner, MutableBytes bytes);
  /// Same, read-only.
  [[nodiscard]] static Result<Storage> kept_read_only(std::shared_ptr<const void> owner, Bytes bytes);
  /// Read-only bytes of a file that `owner` keeps mapped.
  [[nodiscard]] static Result<Storage> file_backed(std::shared_ptr<const void> owner, Bytes bytes,
                                                   FileBacked range);

  /// A range of a file that is not mapped. `bytes()` is empty; a writer copies the bytes from the file.
  [[nodiscard]] static Result<Storage> in_file(FileBacked range);
  /// Memory on a device, which `owner` releases. `bytes()` is empty.
  [[nodiscard]] static Result<Storage> on_device(std::shared_ptr<const void> owner, OnDevice where);

  [[nodiscard]] Bytes bytes() const noexcept;
  [[nodiscard]] bool writable() const noexcept;
  /// Whether the bytes may be mapped pages of a file, whose reads can fail: true for all origins but `Owned`.
  [[nodiscard]] bool may_be_mapped() const noexcept;
  /// `bad_state` for read-only bytes.
  [[nodiscard]] Result<MutableBytes> writable_bytes() const;
  [[nodiscard]] const Origin& origin() const noexcept;
  /// The owner object, null if there is none. Devices identify their memory by this object.
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept;

  /// Whether both are handles to the same bytes.
  friend bool operator==(const Storage&, const Storage&) noexcept = default;

 private:
  struct Block;
  explicit Storage(std::shared_ptr<const Block> block) noexcept;
  [[nodiscard]] static Result<Storage> make(std::shared_ptr<const void> owner, MutableBytes bytes,
                                            bool writable, Origin origin);

  std::shared_ptr<const Block> block_;
};

static_assert(sizeof(Storage) == 2 * sizeof(void*));

}  // namespace ht::inline v1
