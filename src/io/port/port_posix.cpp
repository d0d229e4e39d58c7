// The port for Linux. It and the other files of this folder make all system calls on files and mappings.
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "io/port/fault_handler.hpp"
#include "io/port/port.hpp"
#include "io/port/port_parts.hpp"
#include "io/port/system_memory.hpp"

namespace ht::inline v1::io {
namespace {

IoResult<void> done_if(bool succeeded) {
  if (!succeeded) return failed_with(errno);
  return {};
}

IoResult<FileHandle> opened(int fd) {
  if (fd < 0) return failed_with(errno);
  return FileHandle{fd};
}

IoResult<std::uint64_t> counted(std::int64_t count) {
  if (count < 0) return failed_with(errno);
  return static_cast<std::uint64_t>(count);
}

FileKind kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return FileKind::regular;
    case S_IFDIR: return FileKind::folder;
    case S_IFIFO: return FileKind::pipe;
    case S_IFSOCK: return FileKind::socket;
    case S_IFCHR:
    case S_IFBLK: return FileKind::device;
    default: return FileKind::other;
  }
}

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

FileStat to_file_stat(const struct stat& raw) {
  return {.kind = kind_of(raw.st_mode),
          .bytes = static_cast<std::uint64_t>(raw.st_size),
          .device = raw.st_dev,
          .inode = raw.st_ino,
          .modified_ns = nanoseconds(raw.st_mtim),
          .changed_ns = nanoseconds(raw.st_ctim),
          .links = raw.st_nlink,
          .rights = {.permissions = raw.st_mode & 07777U, .owner = raw.st_uid, .group = raw.st_gid}};
}

// A user other than root cannot change the owner of a file, but can set one of the user's own groups. Some
// file systems do not support permissions and fail with EPERM, which is ignored.
bool set_rights(int fd, const Source::Rights& rights) {
  constexpr auto unchanged_owner = static_cast<uid_t>(-1);
  const bool is_owner_set =
      ::fchown(fd, rights.owner, rights.group) == 0 || ::fchown(fd, unchanged_owner, rights.group) == 0;
  if (!is_owner_set && errno != EPERM && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
    return false;
  return ::fchmod(fd, rights.permissions) == 0 || errno == EPERM;
}

// Returns a new file with its owner and permissions set; closes the file if they cannot be set.
IoResult<FileHandle> with_rights(int fd, const std::optional<Source::Rights>& rights) {
  if (fd < 0 || !rights || set_rights(fd, *rights)) return opened(fd);
  const int error_number = errno;
  ::close(fd);
  return failed_with(error_number);
}

// A write past this limit would raise SIGXFSZ, whose default action terminates the process.
bool exceeds_size_limit(std::uint64_t end) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur;
}

bool fits_off_t(std::uint64_t value) { return checked::narrow<off_t>(value).has_value(); }

// Returns the file under a descriptor above 2. In a program that has closed its standard output, `open` may
// return 1; whatever the program prints would then go into the file.
int above_standard(int fd) {
  if (fd < 0 || fd > 2) return fd;
  const int higher = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  const int error_number = errno;
  ::close(fd);
  errno = error_number;
  return higher;
}

// The system calls take non-const addresses but do not write through them.
void* address_of(Region region) { return const_cast<std::byte*>(region.data); }

int madvise_number(Strategy::Advice advice) {
  switch (advice) {
    case Strategy::Advice::normal: return MADV_NORMAL;
    case Strategy::Advice::random: return MADV_RANDOM;
    case Strategy::Advice::will_need: return MADV_WILLNEED;
    case Strategy::Advice::populate: return MADV_POPULATE_READ;
    case Strategy::Advice::allocate: return MADV_POPULATE_WRITE;
    case Strategy::Advice::drop: return MADV_DONTNEED;
    case Strategy::Advice::huge_pages: return MADV_HUGEPAGE;
    case Strategy::Advice::evict: break;  // works on files, see `drop_cached`
  }
  return -1;
}

// cachestat of Linux 6.5, which the C library does not define yet.
constexpr long cachestat_number = 451;

FileSystem file_system_of(std::uint64_t magic) {
  switch (magic) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case HUGETLBFS_MAGIC: return FileSystem::memory;
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case CODA_SUPER_MAGIC:
    case V9FS_MAGIC:
    case 0x0BD00BD0:  // Lustre
      return FileSystem::network;
    case FUSE_SUPER_MAGIC: return FileSystem::user_space;
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
    case SQUASHFS_MAGIC:
    case MSDOS_SUPER_MAGIC:
    case EXFAT_SUPER_MAGIC:
    case 0x2FC12FC1:  // ZFS
      return FileSystem::local;
    default: return FileSystem::unknown;
  }
}

class PosixPort final : public Port {
 public:
  IoResult<FileHandle> open(const std::filesystem::path& path) override {
    // O_NONBLOCK, because opening a pipe without a writer would block.
    return opened(above_standard(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)));
  }

  IoResult<FileHandle> duplicate(FileHandle file) override {
    return opened(::fcntl(file.value, F_DUPFD_CLOEXEC, 3));
  }

  IoResult<void> close(FileHandle file) override {
    // On Linux an interrupted close has released the descriptor; a retry could close another file.
    return done_if(::close(file.value) == 0 || errno == EINTR);
  }

  IoResult<FileStat> stat(FileHandle file) override {
    struct stat raw{};
    if (::fstat(file.value, &raw) != 0) return failed_with(errno);
    return to_file_stat(raw);
  }

  IoResult<FileStat> stat(const std::filesystem::path& path) override {
    struct stat raw{};
    if (::stat(path.c_str(), &raw) != 0) return failed_with(errno);
    return to_file_stat(raw);
  }

  IoResult<std::filesystem::path> read_link(const std::filesystem::path& path) override {
    std::error_code error;
    auto target = std::filesystem::read_symlink(path, error);
    if (error) return tl::unexpected(error);
    return target;
  }

  IoResult<std::vector<std::string>> list(const std::filesystem::path& path) override {
    struct Close {
      void operator()(DIR* folder) const { ::closedir(folder); }
    };
    const std::unique_ptr<DIR, Close> folder(::opendir(path.c_str()));
    if (!folder) return failed_with(errno);
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      // Each call uses its own DIR stream.
      const dirent* const entry = ::readdir(folder.get());  // NOLINT(concurrency-mt-unsafe)
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return failed_with(errno);
    return names;
  }

  IoResult<std::uint64_t> read_at(FileHandle file, std::uint64_t offset, MutableBytes into) override {
    if (!fits_off_t(offset)) return failed_with(EINVAL);
    return counted(::pread(file.value, into.data(), into.size(), static_cast<off_t>(offset)));
  }

  IoResult<Region> map(FileHandle file, std::uint64_t offset, std::uint64_t bytes) override {
    if (!fits_off_t(offset)) return failed_with(EINVAL);
    void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.value, static_cast<off_t>(offset));
    if (data == MAP_FAILED) return failed_with(errno);
    return Region{static_cast<const std::byte*>(data), bytes};
  }

  IoResult<Region> map_private(FileHandle file, std::uint64_t offset, std::uint64_t bytes) override {
    if (!fits_off_t(offset)) return failed_with(EINVAL);
    // Without a reservation: a file may be larger than memory, and few of its pages are written.
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.value,
                        static_cast<off_t>(offset));
    if (data == MAP_FAILED) return failed_with(errno);
    return Region{static_cast<const std::byte*>(data), bytes};
  }

  IoResult<void> unmap(Region region) override {
    return done_if(::munmap(address_of(region), region.bytes) == 0);
  }

  IoResult<void> map_over(Region region, FileHandle file, std::uint64_t offset) override {
    if (!fits_off_t(offset)) return failed_with(EINVAL);
    const auto address = reinterpret_cast<std::uintptr_t>(region.data);
    return done_if(
        map_fixed(address, region.bytes, PROT_READ, MAP_SHARED, file.value, static_cast<off_t>(offset)));
  }

  IoResult<void> advise(Region region, Strategy::Advice advice) override {
    return done_if(::madvise(address_of(region), region.bytes, madvise_number(advice)) == 0);
  }

  [[nodiscard]] std::uint64_t page_bytes() const noexcept override {
    return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  IoResult<FileHandle> reopen_direct(FileHandle file, Access access) override {
    // Reopens by descriptor: the path may name another file by now.
    const int mode = access == Access::write ? O_RDWR : O_RDONLY;
    return opened(above_standard(::open(path_of(file).c_str(), mode | O_CLOEXEC | O_DIRECT)));
  }

  IoResult<DirectAlignment> direct_alignment(FileHandle file) override {
    struct ::statx raw{};
    if (::statx(file.value, "", AT_EMPTY_PATH, STATX_DIOALIGN, &raw) != 0) return failed_with(errno);
    // Kernels before 6.1 do not report the alignment; all of them accept page alignment.
    if ((raw.stx_mask & STATX_DIOALIGN) == 0) return DirectAlignment{page_bytes(), page_bytes()};
    if (raw.stx_dio_offset_align == 0) return failed_with(EINVAL);
    return DirectAlignment{raw.stx_dio_offset_align, raw.stx_dio_mem_align};
  }

  IoResult<std::unique_ptr<ReadQueue>> read_queue([[maybe_unused]] std::uint32_t depth) override {
#if HT_HAVE_URING
    return uring_queue(depth);
#else
    return failed_with(ENOSYS);
#endif
  }

  IoResult<void> cached(FileHandle file, std::span<Source::CacheQuery> parts) override {
    for (auto& part : parts) {
      part.cached_bytes = 0;
      if (part.bytes == 0) continue;
      std::array<std::uint64_t, 2> range{part.offset, part.bytes};
      std::array<std::uint64_t, 5> pages{};  // cached, dirty, in writeback, evicted, recently evicted
      if (::syscall(cachestat_number, file.value, range.data(), pages.data(), 0) == 0) {
        part.cached_bytes = std::min(pages[0] * page_bytes(), part.bytes);
        continue;
      }
      // ENOSYS and, in a sandbox that does not know the call, EPERM: cachestat is not available.
      if (errno != ENOSYS && errno != EPERM && errno != EOPNOTSUPP) return failed_with(errno);
      if (!mincore_reports(file)) return failed_with(EPERM);
      return cached_by_mincore(file, parts);
    }
    return {};
  }

  IoResult<void> drop_cached(FileHandle file, std::uint64_t offset, std::uint64_t bytes) override {
    if (!fits_off_t(offset) || !fits_off_t(bytes)) return failed_with(EINVAL);
    if (bytes == 0) return {};  // to the system call, length 0 means the whole file
    const int error_number = ::posix_fadvise(file.value, static_cast<off_t>(offset),
                                             static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
    if (error_number != 0) return failed_with(error_number);
    return {};
  }

  IoResult<FileSystem> file_system(FileHandle file) override {
    struct statfs raw{};
    if (::fstatfs(file.value, &raw) != 0) return failed_with(errno);
    return file_system_of(static_cast<std::uint64_t>(raw.f_type));
  }

  IoResult<std::uint64_t> available_memory() override { return ht::io::available_memory(); }
  IoResult<std::uint64_t> peak_memory() override { return ht::io::peak_memory(); }

  IoResult<std::uint64_t> next_data(FileHandle file, std::uint64_t offset) override {
    return seek(file, offset, SEEK_DATA);
  }
  IoResult<std::uint64_t> next_hole(FileHandle file, std::uint64_t offset) override {
    return seek(file, offset, SEEK_HOLE);
  }

  IoResult<FileHandle> create(const std::filesystem::path& path,
                              std::optional<Source::Rights> rights) override {
    const int fd =
        above_standard(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    auto created = with_rights(fd, rights);
    if (fd >= 0 && !created) ::unlink(path.c_str());
    return created;
  }

  IoResult<FileHandle> create_nameless(const std::filesystem::path& folder,
                                       std::optional<Source::Rights> rights) override {
    const int fd = above_standard(::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0666));
    // Kernels without O_TMPFILE see O_DIRECTORY in it and fail with EISDIR or ENOENT.
    if (fd < 0) return failed_with(errno == EISDIR || errno == ENOENT ? EOPNOTSUPP : errno);
    return with_rights(fd, rights);
  }

  IoResult<void> name(FileHandle file, const std::filesystem::path& path) override {
    const auto from = path_of(file);
    return done_if(::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0);
  }

  IoResult<void> claim(FileHandle file) override {
    if (::flock(file.value, LOCK_EX | LOCK_NB) == 0) return {};
    if (errno != EBADF) return failed_with(errno);
    // NFS locks only writable descriptors, so the file is reopened for writing by its descriptor.
    const int writable = ::open(path_of(file).c_str(), O_RDWR | O_CLOEXEC);
    if (writable < 0) return failed_with(errno);
    auto done =
        done_if(::flock(writable, LOCK_EX | LOCK_NB) == 0 && ::dup3(writable, file.value, O_CLOEXEC) >= 0);
    ::close(writable);
    return done;
  }

  IoResult<void> clone_range(const CopyRequest& request) override {
    const auto end = checked::add(request.to_offset, request.bytes);
    if (!end || exceeds_size_limit(*end)) return failed_with(EFBIG);
    const file_clone_range range{.src_fd = request.from.value,
                                 .src_offset = request.from_offset,
                                 .src_length = request.bytes,
                                 .dest_offset = request.to_offset};
    return done_if(::ioctl(request.to.value, FICLONERANGE, &range) == 0);
  }

  IoResult<std::uint64_t> copy_range(const CopyRequest& request) override {
    const auto end = checked::add(request.to_offset, request.bytes);
    if (!end || !fits_off_t(*end) || exceeds_size_limit(*end)) return failed_with(EFBIG);
    if (!fits_off_t(request.from_offset)) return failed_with(EINVAL);
    auto from = static_cast<off_t>(request.from_offset);
    auto to = static_cast<off_t>(request.to_offset);
    return counted(::copy_file_range(request.from.value, &from, request.to.value, &to, request.bytes, 0));
  }

  IoResult<std::uint64_t> write_at(FileHandle file, std::uint64_t offset, Bytes from) override {
    const auto end = checked::add(offset, from.size());
    if (!end || !fits_off_t(*end) || exceeds_size_limit(*end)) return failed_with(EFBIG);
    return counted(::pwrite(file.value, from.data(), from.size(), static_cast<off_t>(offset)));
  }

  IoResult<void> allocate(FileHandle file, std::uint64_t bytes) override {
    if (!fits_off_t(bytes) || exceeds_size_limit(bytes)) return failed_with(EFBIG);
    if (bytes == 0) return {};
    return done_if(::fallocate(file.value, 0, 0, static_cast<off_t>(bytes)) == 0);
  }

  IoResult<void> resize(FileHandle file, std::uint64_t bytes) override {
    if (!fits_off_t(bytes) || exceeds_size_limit(bytes)) return failed_with(EFBIG);
    return done_if(::ftruncate(file.value, static_cast<off_t>(bytes)) == 0);
  }

  IoResult<void> sync(FileHandle file) override { return done_if(::fsync(file.value) == 0); }

  IoResult<void> rename(const std::filesystem::path& from, const std::filesystem::path& to,
                        IfExists if_exists) override {
    if (if_exists == IfExists::replace) return done_if(::rename(from.c_str(), to.c_str()) == 0);
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
    if (errno != EINVAL && errno != ENOSYS) return failed_with(errno);
    // A file system without RENAME_NOREPLACE: link does not overwrite either.
    if (::link(from.c_str(), to.c_str()) == 0) return unlink(from);
    if (errno != EPERM && errno != ENOSYS && errno != EOPNOTSUPP) return failed_with(errno);
    // A file system without hard links: check and rename, which leaves a short race.
    if (::faccessat(AT_FDCWD, to.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) return failed_with(EEXIST);
    return done_if(::rename(from.c_str(), to.c_str()) == 0);
  }

  IoResult<void> unlink(const std::filesystem::path& path) override {
    return done_if(::unlink(path.c_str()) == 0);
  }

 private:
  // A path that opens the descriptor's file, also after the file was renamed or replaced.
  static std::string path_of(FileHandle file) { return "/proc/self/fd/" + std::to_string(file.value); }

  // Moves the file position, which no other function uses.
  static IoResult<std::uint64_t> seek(FileHandle file, std::uint64_t offset, int whence) {
    if (!fits_off_t(offset)) return failed_with(EINVAL);
    return counted(::lseek(file.value, static_cast<off_t>(offset), whence));
  }

  // Returns whether mincore reports the page cache. Since Linux 5.2 it reports every page as resident, unless
  // the user owns the file or may write to it; in some sandboxes it always does. A page far after the end of
  // the file is never resident, so a query of such a page detects both cases.
  bool mincore_reports(FileHandle file) {
    constexpr std::uint64_t step = std::uint64_t{2} << 30;  // larger than any page
    const auto stat = this->stat(file);
    if (!stat) return false;
    const std::uint64_t after_end = (stat->bytes / step + 2) * step;
    const auto region = map(file, after_end, page_bytes());
    if (!region) return false;
    unsigned char resident = 1;
    const bool is_reported = ::mincore(address_of(*region), region->bytes, &resident) == 0;
    unmap(*region);
    return is_reported && (resident & 1U) == 0;
  }

  // For kernels before 6.5: maps a window of 256 MiB at a time, and counts the resident pages of all parts in
  // it.
  IoResult<void> cached_by_mincore(FileHandle file, std::span<Source::CacheQuery> parts) {
    constexpr std::uint64_t window_bytes = std::uint64_t{1} << 28;
    const std::uint64_t page = page_bytes();
    std::vector<unsigned char> resident(static_cast<std::size_t>(window_bytes / page));
    std::uint64_t begin = 0;
    std::uint64_t end = 0;  // empty: nothing queried yet
    const auto query_window = [&](std::uint64_t offset) -> IoResult<void> {
      const auto region = map(file, offset, window_bytes);
      if (!region) return tl::unexpected(region.error());
      const bool is_reported = ::mincore(address_of(*region), region->bytes, resident.data()) == 0;
      const int error_number = errno;
      unmap(*region);
      if (!is_reported) return failed_with(error_number);
      begin = offset;
      end = offset + window_bytes;
      return {};
    };
    for (auto& part : parts) {
      std::uint64_t pages = 0;
      for (std::uint64_t at = part.offset / page * page; at < part.offset + part.bytes; at += page) {
        if (at < begin || at >= end) {
          if (const auto queried = query_window(at); !queried) return queried;
        }
        pages += resident[static_cast<std::size_t>((at - begin) / page)] & 1U;
      }
      part.cached_bytes = std::min(pages * page, part.bytes);
    }
    return {};
  }
};

}  // namespace

Port& system_port() noexcept {
  static PosixPort port;
  return port;
}

}  // namespace ht::inline v1::io
