// The one seam to the operating system: every system call of the library stands behind a Port.
//
// A Port does what it is told once and says what the system said: it neither retries nor explains;
// those who call it do. Tests put their own in its place to make any call fail, shorten or lie. The
// same Port may be used from many threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <tl/expected.hpp>
#include <vector>

namespace ht::inline v1::io {

/// A value, or what the system said.
template <class T>
using IoResult = tl::expected<T, std::error_code>;

enum class FileKind : std::uint8_t { regular, folder, pipe, socket, device, other };

/// Whose a file is, and what others may do with it.
struct FileRights {
  std::uint32_t permissions = 0;
  std::uint32_t owner = 0;
  std::uint32_t group = 0;

  friend bool operator==(const FileRights&, const FileRights&) = default;
};

struct FileStat {
  FileKind kind = FileKind::other;
  std::uint64_t bytes = 0;
  /// The identity of the file, whatever its name is now.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  /// The last write (mtime), which utimensat can set back.
  std::int64_t modified_ns = 0;
  /// The last change of contents, links, rights or name (ctime), which nothing can set back.
  std::int64_t changed_ns = 0;
  std::uint64_t links = 1;
  FileRights rights{};

  friend bool operator==(const FileStat&, const FileStat&) = default;
};

/// An open file of one Port; the one who has it closes it.
struct FileHandle {
  int value = -1;
};

/// Mapped pages. No bytes: nothing is mapped.
struct Region {
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

/// What is going to happen with mapped pages, so that the system acts on it.
enum class Advice : std::uint8_t {
  normal,
  random,      ///< do not read ahead
  will_need,   ///< begin to fetch them, and do not wait
  populate,    ///< fetch them now: afterwards touching them does not wait
  allocate,    ///< for private memory: give it pages now, so that writing to it does not wait
  drop,        ///< take them out of this process; the page cache keeps them
  evict,       ///< take them out of this process and, unless others have them mapped, out of the page cache
  huge_pages,  ///< for memory of one's own: use large pages
};

/// What kind of place a file lies in: it tells what reading costs.
enum class FileSystem : std::uint8_t { local, memory, network, user_space, unknown };

enum class IfExists : std::uint8_t { replace, fail };

enum class Access : std::uint8_t { read, write };

/// What direct reads and writes have to be multiples of.
struct DirectAlignment {
  std::uint64_t offset = 0;  ///< offsets in the file, and sizes, but for a read's at the file's end
  std::uint64_t memory = 0;  ///< addresses

  [[nodiscard]] constexpr std::uint64_t both() const noexcept { return offset > memory ? offset : memory; }
};

/// A part of a file, and how many of its bytes are in the page cache.
struct CacheQuery {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t cached_bytes = 0;
};

/// A part of one file that goes to another.
struct CopyRequest {
  FileHandle from{};
  std::uint64_t from_offset = 0;
  FileHandle to{};
  std::uint64_t to_offset = 0;
  std::uint64_t bytes = 0;
};

/// A read that is to be under way with others. `into` has to stay where it is until it is done.
struct ReadRequest {
  FileHandle file{};
  std::uint64_t offset = 0;
  MutableBytes into{};
  /// The caller's own, to tell them apart.
  std::uint64_t tag = 0;
};

struct ReadDone {
  std::uint64_t tag = 0;
  /// As of `Port::read_at`: it may be less than was asked for.
  IoResult<std::uint64_t> bytes{};
};

/// Several reads at once. One thread uses it at a time. When it goes, it waits for those that are under way.
class ReadQueue {
 public:
  ReadQueue() = default;
  ReadQueue(const ReadQueue&) = delete;
  ReadQueue& operator=(const ReadQueue&) = delete;
  virtual ~ReadQueue() = default;

  /// Begins one. `resource_unavailable_try_again` where as many are under way as there can be; then one has
  /// to be completed first.
  [[nodiscard]] virtual IoResult<void> submit(const ReadRequest& request) = 0;
  /// Waits for one to be done, whichever it is. Only while there are some under way, else `invalid_argument`.
  /// What fails here is the waiting: that one is still under way then.
  [[nodiscard]] virtual IoResult<ReadDone> complete() = 0;
};

class Port {
 public:
  Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  virtual ~Port() = default;

  /// For reading, close-on-exec. Never waits for the other end of a pipe. A folder opens too, to be synced.
  [[nodiscard]] virtual IoResult<FileHandle> open(const std::filesystem::path& path) = 0;
  /// Another descriptor of the same open file, close-on-exec.
  [[nodiscard]] virtual IoResult<FileHandle> duplicate(FileHandle file) = 0;
  virtual IoResult<void> close(FileHandle file) = 0;
  [[nodiscard]] virtual IoResult<FileStat> stat(FileHandle file) = 0;
  /// Of what a path leads to, through links.
  [[nodiscard]] virtual IoResult<FileStat> stat(const std::filesystem::path& path) = 0;
  /// Where a link leads to, as it is written there.
  [[nodiscard]] virtual IoResult<std::filesystem::path> read_link(const std::filesystem::path& path) = 0;
  /// The names in a folder, in any order, without "." and "..".
  [[nodiscard]] virtual IoResult<std::vector<std::string>> list(const std::filesystem::path& path) = 0;
  /// May read less than was asked for; 0 bytes at the end of the file.
  [[nodiscard]] virtual IoResult<std::uint64_t> read_at(FileHandle file, std::uint64_t offset,
                                                        MutableBytes into) = 0;
  /// Shared, read-only pages; `offset` is a multiple of `page_bytes` and `bytes` is not 0. A system
  /// without mappings answers `function_not_supported`.
  [[nodiscard]] virtual IoResult<Region> map(FileHandle file, std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual IoResult<void> unmap(Region region) = 0;
  /// The same over pages that are mapped already, in one step. `bytes` of the region may be rounded up to
  /// pages.
  [[nodiscard]] virtual IoResult<void> map_over(Region region, FileHandle file, std::uint64_t offset) = 0;
  /// The region begins and ends at pages. What a system does not know is `invalid_argument`.
  [[nodiscard]] virtual IoResult<void> advise(Region region, Advice advice) = 0;
  [[nodiscard]] virtual std::uint64_t page_bytes() const noexcept = 0;

  /// The same file once more, for reads or writes that go past the page cache. `invalid_argument` where it
  /// cannot be.
  [[nodiscard]] virtual IoResult<FileHandle> reopen_direct(FileHandle file, Access access) = 0;
  [[nodiscard]] virtual IoResult<DirectAlignment> direct_alignment(FileHandle file) = 0;
  /// For this many reads at once. `function_not_supported` where the system has no such thing, or keeps it
  /// from this process.
  [[nodiscard]] virtual IoResult<std::unique_ptr<ReadQueue>> read_queue(std::uint32_t depth) = 0;

  /// Fills in how many bytes of each part of a file are in the page cache, counted by the pages that the part
  /// touches. `operation_not_permitted` where the kernel does not report it to this user: Linux answers the
  /// file's owner, users that may write to it, and CAP_FOWNER.
  [[nodiscard]] virtual IoResult<void> cached(FileHandle file, std::span<CacheQuery> parts) = 0;
  /// Takes the whole pages of that part of a file out of the page cache, unless somebody has them mapped or
  /// they are not yet on the disk.
  [[nodiscard]] virtual IoResult<void> forget(FileHandle file, std::uint64_t offset, std::uint64_t bytes) = 0;
  [[nodiscard]] virtual IoResult<FileSystem> file_system(FileHandle file) = 0;
  /// Bytes that this process may take without hurting others or hitting its own limit.
  [[nodiscard]] virtual IoResult<std::uint64_t> available_memory() = 0;
  /// The most bytes of memory that this process has had so far, files' pages that it has mapped among them.
  [[nodiscard]] virtual IoResult<std::uint64_t> peak_memory() = 0;

  /// Where the next bytes are that a file really has, at or behind this offset: what lies before them reads
  /// as zero and takes no room. `no_such_device_or_address` behind the last. A file system that does not tell
  /// has all of it.
  [[nodiscard]] virtual IoResult<std::uint64_t> next_data(FileHandle file, std::uint64_t offset) = 0;
  /// The same for the next hole; there is always one, behind the last byte.
  [[nodiscard]] virtual IoResult<std::uint64_t> next_hole(FileHandle file, std::uint64_t offset) = 0;

  /// A new file for writing; `file_exists` where there is one. Rights are the user's default
  /// unless given, and then kept as far as this process may give them.
  [[nodiscard]] virtual IoResult<FileHandle> create(const std::filesystem::path& path,
                                                    std::optional<FileRights> rights) = 0;
  /// A new file without a name, which is gone with its handle unless it gets one. `operation_not_supported`
  /// where a file system has no such thing.
  [[nodiscard]] virtual IoResult<FileHandle> create_nameless(const std::filesystem::path& folder,
                                                             std::optional<FileRights> rights) = 0;
  /// Gives it one. `file_exists` where that is taken.
  [[nodiscard]] virtual IoResult<void> name(FileHandle file, const std::filesystem::path& path) = 0;
  /// Takes the file for this process until it is closed there; `resource_unavailable_try_again` while another
  /// has it. It keeps only those away who ask.
  [[nodiscard]] virtual IoResult<void> claim(FileHandle file) = 0;
  /// May write less than was asked for. Never raises SIGXFSZ: that is `file_too_large`.
  [[nodiscard]] virtual IoResult<std::uint64_t> write_at(FileHandle file, std::uint64_t offset,
                                                         Bytes from) = 0;
  /// Shares the blocks of a part with another file, so that they are stored once until one of them is
  /// written to. All three numbers are multiples of the file system's blocks; what it cannot share is
  /// `operation_not_supported`, `cross_device_link` or `invalid_argument`.
  [[nodiscard]] virtual IoResult<void> clone_range(const CopyRequest& request) = 0;
  /// Copied by the system itself; may be less than was asked for, and is 0 at the file's end. What it cannot
  /// do is answered as above, or `function_not_supported`.
  [[nodiscard]] virtual IoResult<std::uint64_t> copy_range(const CopyRequest& request) = 0;
  /// Makes the file this long with room on the disk for all of it.
  [[nodiscard]] virtual IoResult<void> allocate(FileHandle file, std::uint64_t bytes) = 0;
  /// Makes the file this long; what is never written stays a hole and reads as zero.
  [[nodiscard]] virtual IoResult<void> resize(FileHandle file, std::uint64_t bytes) = 0;
  /// Returns when the bytes, or a folder's names, are on the disk. A file system that cannot sync a folder
  /// answers `invalid_argument`.
  [[nodiscard]] virtual IoResult<void> sync(FileHandle file) = 0;
  [[nodiscard]] virtual IoResult<void> rename(const std::filesystem::path& from,
                                              const std::filesystem::path& to, IfExists if_exists) = 0;
  [[nodiscard]] virtual IoResult<void> unlink(const std::filesystem::path& path) = 0;
};

/// This machine's own. It has no state and lives as long as the program.
[[nodiscard]] Port& system_port() noexcept;

static_assert(sizeof(FileHandle) == sizeof(int) && sizeof(Region) == 16);

}  // namespace ht::inline v1::io
