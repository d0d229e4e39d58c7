// Bytes and whatever keeps them alive.
//
// A Storage is a handle: copies share the bytes, and the last one gone releases them. It knows nothing
// of files or devices; those who do hand it an owner to keep. Handles may be copied and dropped from
// many threads; writing to shared bytes is the caller's to order.
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
  /// Memory of its own.
  struct Owned {};
  /// Somebody else's, who has to keep it until the last handle is gone.
  struct Borrowed {};
  /// A range of a file; a writer may take the bytes from there.
  struct FileBacked {
    std::filesystem::path locator;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    /// The mapped file, whatever its path leads to by now; both are 0 where it is not known.
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
  };
  /// Memory of a device, which the host does not see.
  struct OnDevice {
    std::string device;
    std::uint64_t bytes = 0;
    /// The first byte in the device's own numbering. Tensors on the device count from it, and the library
    /// never reads there; a device without addresses keeps this one and subtracts it again.
    std::uint64_t address = 4096;
    /// Whether the device may write.
    bool writable = true;
  };
  using Origin = std::variant<Owned, Borrowed, FileBacked, OnDevice>;

  static constexpr std::uint64_t default_alignment = 64;

  /// No bytes.
  Storage() noexcept = default;

  /// Zeroed memory, which costs nothing before it is touched. `out_of_memory` where there is none.
  [[nodiscard]] static Result<Storage> owned(std::uint64_t bytes,
                                             std::uint64_t alignment = default_alignment);
  [[nodiscard]] static Result<Storage> borrowed(MutableBytes bytes);
  /// Only read-only tensors can be made over it.
  [[nodiscard]] static Result<Storage> borrowed_read_only(Bytes bytes);
  /// Memory that `owner` releases when the last handle is gone, as a device's allocator needs.
  [[nodiscard]] static Result<Storage> kept_by(std::shared_ptr<const void> owner, MutableBytes bytes);
  /// The same, for reading alone.
  [[nodiscard]] static Result<Storage> kept_read_only(std::shared_ptr<const void> owner, Bytes bytes);
  /// Read-only bytes of a file, which `owner` (a mapping) keeps in place.
  [[nodiscard]] static Result<Storage> file_backed(std::shared_ptr<const void> owner, Bytes bytes,
                                                   FileBacked range);

  /// A range of a file that nobody has opened: it has no bytes here, and a writer takes them from the file.
  [[nodiscard]] static Result<Storage> in_file(FileBacked range);
  /// It has no bytes here either; `owner` releases those on the device.
  [[nodiscard]] static Result<Storage> on_device(std::shared_ptr<const void> owner, OnDevice where);

  [[nodiscard]] Bytes bytes() const noexcept;
  [[nodiscard]] bool writable() const noexcept;
  /// Whether the bytes may be pages of a file, which can turn out to be unreadable: all but memory of its
  /// own.
  [[nodiscard]] bool may_be_mapped() const noexcept;
  /// `bad_state` for read-only bytes.
  [[nodiscard]] Result<MutableBytes> writable_bytes() const;
  [[nodiscard]] const Origin& origin() const noexcept;
  /// The object that keeps the bytes, null where there is none; a device finds its memory by it.
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
