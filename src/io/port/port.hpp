// The interface to the operating system: all system calls of the library on files and mappings go through a
// Port.
//
// A Port makes each call once and returns the system's result. Callers retry and explain errors. Tests
// substitute their own Port to inject errors, short transfers and wrong results. A Port is thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/work.hpp>
#include <htensor/io/strategy.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <tl/expected.hpp>
#include <vector>

namespace ht::inline v1::io {

/// A value, or the error code of the system.
template <class T>
using IoResult = tl::expected<T, std::error_code>;

enum class FileKind : std::uint8_t { regular, folder, pipe, socket, device, other };

struct FileStat {
  FileKind kind = FileKind::other;
  std::uint64_t bytes = 0;
  /// `device` and `inode` identify the file independently of its name.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  /// The last write (mtime), which utimensat can set back.
  std::int64_t modified_ns = 0;
  /// The last change of contents, links, rights or name (ctime), which cannot be set back.
  std::int64_t changed_ns = 0;
  std::uint64_t links = 1;
  Source::Rights rights{};

  friend bool operator==(const FileStat&, const FileStat&) = default;
};

/// An open file of one Port. Its owner closes it.
struct FileHandle {
  int value = -1;
};

/// Mapped pages; 0 bytes means no mapping.
struct Region {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

/// The kind of file system that a file is on; it determines the cost of reads.
enum class FileSystem : std::uint8_t { local, memory, network, user_space, unknown };

enum class Access : std::uint8_t { read, write };

/// The alignment that direct reads and writes require.
struct DirectAlignment {
  std::uint64_t offset = 0;  ///< of file offsets and sizes, except the size of a read at the end of the file
  std::uint64_t memory = 0;  ///< of addresses

  /// An alignment that meets both requirements: each is a power of two.
  [[nodiscard]] constexpr std::uint64_t both() const noexcept { return offset > memory ? offset : memory; }
};

/// A part of one file to copy to another.
struct CopyRequest {
  FileHandle from{};
  std::uint64_t from_offset = 0;
  FileHandle to{};
  std::uint64_t to_offset = 0;
  std::uint64_t bytes = 0;
};

/// A read for a ReadQueue. `into` has to stay valid until the read completes.
struct ReadRequest {
  FileHandle file{};
  std::uint64_t offset = 0;
  MutableBytes into{};
  /// Set by the caller to identify the read.
  std::uint64_t tag = 0;
};

struct ReadDone {
  std::uint64_t tag = 0;
  /// As from `Port::read_at`: may be less than requested.
  IoResult<std::uint64_t> bytes{};
};

/// A queue of reads in flight. Not thread-safe. The destructor waits for all reads in flight.
class ReadQueue {
 public:
  ReadQueue() = default;
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;
  virtual ~ReadQueue() = default;

  /// Starts a read. `resource_unavailable_try_again` if the queue is full: complete a read first.
  [[nodiscard]] virtual IoResult<void> submit(const ReadRequest& request) = 0;
  /// Waits until any read in flight completes. `invalid_argument` if no read is in flight. After an error of
  /// the wait itself, the read is still in flight.
  [[nodiscard]] virtual IoResult<ReadDone> complete() = 0;
};

class Port {
 public:
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  virtual ~Port() = default;

  /// Opens a file for reading, close-on-exec. Does not wait for the other end of a pipe. Also opens a folder,
  /// for `sync`.
  [[nodiscard]] virtual IoResult<FileHandle> open(const std::filesystem::path& path) = 0;
  /// Another descriptor of the same open file, close-on-exec.
  [[nodiscard]] virtual IoResult<FileHandle> duplicate(FileHandle file) = 0;
  virtual IoResult<void> close(FileHandle file) = 0;
  [[nodiscard]] virtual IoResult<FileStat> stat(FileHandle file) = 0;
  /// Follows symbolic links.
  [[nodiscard]] virtual IoResult<FileStat> stat(const std::filesystem::path& path) = 0;
  /// The target of a symbolic link, as stored in the link.
  [[nodiscard]] virtual IoResult<std::filesystem::path> read_link(const std::filesystem::path& path) = 0;
  /// The names in a folder, in any order, without "." and "..".
  [[nodiscard]] virtual IoResult<std::vector<std::string>> list(const std::filesystem::path& path) = 0;
  /// May read less than requested; returns 0 at the end of the file.
  [[nodiscard]] virtual IoResult<std::uint64_t> read_at(FileHandle file, std::uint64_t offset,
                                                        MutableBytes into) = 0;
  /// Maps shared, read-only pages; `offset` is a multiple of `page_bytes` and `bytes` is not 0.
  /// `function_not_supported` on a system without mappings.
  [[nodiscard]] virtual IoResult<Region> map(FileHandle file, std::uint64_t offset, std::uint64_t bytes) = 0;
  /// As `map`, with private, writable pages: a page is copied when it is written, and the file never changes.
  [[nodiscard]] virtual IoResult<Region> map_private(FileHandle file, std::uint64_t offset,
                                                     std::uint64_t bytes) = 0;
  virtual IoResult<void> unmap(Region region) = 0;
  /// Replaces mapped pages by pages of the file, in one step (MAP_FIXED). The system rounds `bytes` of the
  /// region up to whole pages.
  [[nodiscard]] virtual IoResult<void> map_over(Region region, FileHandle file, std::uint64_t offset) = 0;
  /// Gives the system advice on a region, which begins and ends at page boundaries. `invalid_argument` for
  /// advice that the system does not support.
  [[nodiscard]] virtual IoResult<void> advise(Region region, Strategy::Advice advice) = 0;
  [[nodiscard]] virtual std::uint64_t page_bytes() const noexcept = 0;

  /// Opens the same file again, for reads or writes that bypass the page cache. `invalid_argument` if that is
  /// not possible.
  [[nodiscard]] virtual IoResult<FileHandle> reopen_direct(FileHandle file, Access access) = 0;
  [[nodiscard]] virtual IoResult<DirectAlignment> direct_alignment(FileHandle file) = 0;
  /// A queue for up to `depth` reads in flight. `function_not_supported` if the system has no such queue or
  /// denies it to this process.
  [[nodiscard]] virtual IoResult<std::unique_ptr<ReadQueue>> read_queue(std::uint32_t depth) = 0;

  /// Sets `cached_bytes` of each part of a file: the size of the cached pages that the part touches, at most
  /// the size of the part. `operation_not_permitted` if the kernel does not report it to this user: Linux
  /// reports it to the file's owner, to users that may write to the file, and with CAP_FOWNER.
  [[nodiscard]] virtual IoResult<void> cached(FileHandle file, std::span<Source::CacheQuery> parts) = 0;
  /// Drops the whole pages inside a part of a file from the page cache, except pages that are mapped or not
  /// yet written to disk.
  [[nodiscard]] virtual IoResult<void> drop_cached(FileHandle file, std::uint64_t offset,
                                                   std::uint64_t bytes) = 0;
  [[nodiscard]] virtual IoResult<FileSystem> file_system(FileHandle file) = 0;
  /// Bytes that this process can allocate within the system's available memory and its own limits.
  [[nodiscard]] virtual IoResult<std::uint64_t> available_memory() = 0;
  /// The peak resident memory of this process in bytes, including pages of mapped files.
  [[nodiscard]] virtual IoResult<std::uint64_t> peak_memory() = 0;

  /// The offset of the next stored byte of a file, at or after `offset` (SEEK_DATA). Bytes before it are a
  /// hole: they read as zero and use no disk space. `no_such_device_or_address` after the last stored byte. A
  /// file system that does not report holes reports all bytes as stored.
  [[nodiscard]] virtual IoResult<std::uint64_t> next_data(FileHandle file, std::uint64_t offset) = 0;
  /// The offset of the next hole (SEEK_HOLE); the end of the file counts as a hole.
  [[nodiscard]] virtual IoResult<std::uint64_t> next_hole(FileHandle file, std::uint64_t offset) = 0;

  /// Creates a file for writing; `file_exists` if the path exists. Rights are the user's default unless
  /// given; given rights are set as far as this process may set them.
  [[nodiscard]] virtual IoResult<FileHandle> create(const std::filesystem::path& path,
                                                    std::optional<Source::Rights> rights) = 0;
  /// Creates a file without a name (O_TMPFILE), which is removed on close unless `name` was called.
  /// `operation_not_supported` if the file system does not support that.
  [[nodiscard]] virtual IoResult<FileHandle> create_nameless(const std::filesystem::path& folder,
                                                             std::optional<Source::Rights> rights) = 0;
  /// Gives a nameless file a name. `file_exists` if the path exists.
  [[nodiscard]] virtual IoResult<void> name(FileHandle file, const std::filesystem::path& path) = 0;
  /// Takes an exclusive advisory lock on the file (flock) until the file is closed.
  /// `resource_unavailable_try_again` while the lock is held elsewhere.
  [[nodiscard]] virtual IoResult<void> claim(FileHandle file) = 0;
  /// May write less than requested. Never raises SIGXFSZ; returns `file_too_large` instead.
  [[nodiscard]] virtual IoResult<std::uint64_t> write_at(FileHandle file, std::uint64_t offset,
                                                         Bytes from) = 0;
  /// Shares the blocks of a part with another file (reflink). The blocks are stored once until one of the
  /// files is written to. Offsets and size are multiples of the file system's block size.
  /// `operation_not_supported`, `cross_device_link` or `invalid_argument` if the blocks cannot be shared.
  [[nodiscard]] virtual IoResult<void> clone_range(const CopyRequest& request) = 0;
  /// Copies within the kernel (copy_file_range). May copy less than requested; returns 0 at the end of the
  /// file. Errors as `clone_range`, or `function_not_supported`.
  [[nodiscard]] virtual IoResult<std::uint64_t> copy_range(const CopyRequest& request) = 0;
  /// Allocates disk space for the first `bytes` bytes of the file; a smaller file grows to this size.
  [[nodiscard]] virtual IoResult<void> allocate(FileHandle file, std::uint64_t bytes) = 0;
  /// Sets the size of the file; bytes that are never written stay a hole and read as zero.
  [[nodiscard]] virtual IoResult<void> resize(FileHandle file, std::uint64_t bytes) = 0;
  /// Returns when the bytes, or the names in a folder, are on disk (fsync). `invalid_argument` if the file
  /// system cannot sync a folder.
  [[nodiscard]] virtual IoResult<void> sync(FileHandle file) = 0;
  [[nodiscard]] virtual IoResult<void> rename(const std::filesystem::path& from,
                                              const std::filesystem::path& to, IfExists if_exists) = 0;
  [[nodiscard]] virtual IoResult<void> unlink(const std::filesystem::path& path) = 0;
};

/// The Port of this machine. It has no state and lives as long as the program.
[[nodiscard]] Port& system_port() noexcept;

static_assert(sizeof(FileHandle) == sizeof(int) && sizeof(Region) == 16);

}  // namespace ht::inline v1::io
