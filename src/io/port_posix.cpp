// The only file with system calls.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <htensor/io/port.hpp>
#include <memory>

namespace ht::inline v1::io {
namespace {

tl::unexpected<std::error_code> said(int error_number) {
  return tl::unexpected(std::error_code(error_number, std::generic_category()));
}

IoResult<void> done_if(bool good) {
  if (!good) return said(errno);
  return {};
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

FileStat to_file_stat(const struct stat& raw) {
  return {.kind = kind_of(raw.st_mode),
          .bytes = static_cast<std::uint64_t>(raw.st_size),
          .device = raw.st_dev,
          .inode = raw.st_ino,
          .modified_ns = raw.st_mtim.tv_sec * 1'000'000'000 + raw.st_mtim.tv_nsec,
          .permissions = raw.st_mode & 07777U};
}

// A write past this limit would raise SIGXFSZ, whose default is to end the process.
bool exceeds_size_limit(std::uint64_t end) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur;
}

bool fits_off_t(std::uint64_t value) { return checked::narrow<off_t>(value).has_value(); }

// Never 0, 1 or 2: where one of those is closed, whatever the program prints would go into the file.
int above_standard(int fd) {
  if (fd < 0 || fd > 2) return fd;
  const int higher = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  const int error_number = errno;
  ::close(fd);
  errno = error_number;
  return higher;
}

// The system's calls take addresses that could be written to, and do not write here.
void* address_of(Region region) {
  return const_cast<std::byte*>(region.data);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

class PosixPort final : public Port {
 public:
  IoResult<FileHandle> open(const std::filesystem::path& path) override {
    // O_NONBLOCK, or a pipe without a writer would wait for one.
    const int fd = above_standard(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    if (fd < 0) return said(errno);
    return FileHandle{fd};
  }

  IoResult<void> close(FileHandle file) override {
    // After an interrupted close the descriptor is gone on Linux; a second try could hit another's.
    return done_if(::close(file.value) == 0 || errno == EINTR);
  }

  IoResult<FileStat> stat(FileHandle file) override {
    struct stat raw{};
    if (::fstat(file.value, &raw) != 0) return said(errno);
    return to_file_stat(raw);
  }

  IoResult<FileStat> stat(const std::filesystem::path& path) override {
    struct stat raw{};
    if (::stat(path.c_str(), &raw) != 0) return said(errno);
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
    if (!folder) return said(errno);
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      // Each caller has a folder of its own.
      const dirent* const entry = ::readdir(folder.get());  // NOLINT(concurrency-mt-unsafe)
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return said(errno);
    return names;
  }

  IoResult<std::uint64_t> read_at(FileHandle file, std::uint64_t offset, MutableBytes into) override {
    if (!fits_off_t(offset)) return said(EINVAL);
    const auto count = ::pread(file.value, into.data(), into.size(), static_cast<off_t>(offset));
    if (count < 0) return said(errno);
    return static_cast<std::uint64_t>(count);
  }

  IoResult<Region> map(FileHandle file, std::uint64_t offset, std::uint64_t bytes) override {
    if (!fits_off_t(offset)) return said(EINVAL);
    void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.value, static_cast<off_t>(offset));
    if (data == MAP_FAILED) return said(errno);
    return Region{static_cast<const std::byte*>(data), bytes};
  }

  IoResult<void> unmap(Region region) override {
    return done_if(::munmap(address_of(region), region.bytes) == 0);
  }

  IoResult<void> map_over(Region region, FileHandle file, std::uint64_t offset) override {
    if (!fits_off_t(offset)) return said(EINVAL);
    return done_if(::mmap(address_of(region), region.bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file.value,
                          static_cast<off_t>(offset)) != MAP_FAILED);
  }

  [[nodiscard]] std::uint64_t page_bytes() const noexcept override {
    return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  }

  IoResult<FileHandle> create(const std::filesystem::path& path,
                              std::optional<std::uint32_t> permissions) override {
    const int fd =
        above_standard(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd < 0) return said(errno);
    // A file system that has no permissions says EPERM, and then there are none to keep.
    if (permissions && ::fchmod(fd, *permissions) != 0 && errno != EPERM) {
      const int error_number = errno;
      ::close(fd);
      ::unlink(path.c_str());
      return said(error_number);
    }
    return FileHandle{fd};
  }

  IoResult<std::uint64_t> write_at(FileHandle file, std::uint64_t offset, Bytes from) override {
    const auto end = checked::add(offset, from.size());
    if (!end || !fits_off_t(*end) || exceeds_size_limit(*end)) return said(EFBIG);
    const auto count = ::pwrite(file.value, from.data(), from.size(), static_cast<off_t>(offset));
    if (count < 0) return said(errno);
    return static_cast<std::uint64_t>(count);
  }

  IoResult<void> allocate(FileHandle file, std::uint64_t bytes) override {
    if (!fits_off_t(bytes) || exceeds_size_limit(bytes)) return said(EFBIG);
    if (bytes == 0) return {};
    return done_if(::fallocate(file.value, 0, 0, static_cast<off_t>(bytes)) == 0);
  }

  IoResult<void> resize(FileHandle file, std::uint64_t bytes) override {
    if (!fits_off_t(bytes) || exceeds_size_limit(bytes)) return said(EFBIG);
    return done_if(::ftruncate(file.value, static_cast<off_t>(bytes)) == 0);
  }

  IoResult<void> sync(FileHandle file) override { return done_if(::fsync(file.value) == 0); }

  IoResult<void> rename(const std::filesystem::path& from, const std::filesystem::path& to,
                        IfExists if_exists) override {
    if (if_exists == IfExists::replace) return done_if(::rename(from.c_str(), to.c_str()) == 0);
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
    if (errno != EINVAL && errno != ENOSYS) return said(errno);
    // A file system without that flag: a second name refuses to replace too.
    if (::link(from.c_str(), to.c_str()) != 0) return said(errno);
    return unlink(from);
  }

  IoResult<void> unlink(const std::filesystem::path& path) override {
    return done_if(::unlink(path.c_str()) == 0);
  }
};

}  // namespace

Port& system_port() noexcept {
  static PosixPort port;
  return port;
}

}  // namespace ht::inline v1::io
