#include "bench/load/high_latency_disk.hpp"

#if HT_HAVE_FUSE
#define FUSE_USE_VERSION 31
#include <fuse3/fuse.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "bench/harness/open_file.hpp"

namespace ht::bench {
namespace {

// Typical of a local network.
constexpr auto latency = std::chrono::microseconds(1000);
constexpr const char* served_path = "/model.safetensors";

// The only state of the FUSE callbacks below.
int served_fd = -1;

int attributes(const char* path, struct stat* into, fuse_file_info* /*file*/) {
  *into = {};
  if (std::strcmp(path, "/") == 0) {
    into->st_mode = S_IFDIR | 0755;
    into->st_nlink = 2;
    return 0;
  }
  if (std::strcmp(path, served_path) != 0) return -ENOENT;
  return ::fstat(served_fd, into) == 0 ? 0 : -errno;
}

// libfuse runs several calls concurrently, so their latencies overlap.
int read_bytes(const char* /*path*/, char* into, std::size_t bytes, off_t offset, fuse_file_info* /*file*/) {
  std::this_thread::sleep_for(latency);
  const auto count = ::pread(served_fd, into, bytes, offset);
  return count < 0 ? -errno : static_cast<int>(count);
}

}  // namespace

int serve_high_latency_disk(const std::string& file, const std::string& folder) {
  // The mount must not outlive the benchmark, even if the benchmark is killed.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // Ignore Ctrl-C, so that a read that the benchmark has begun on this file system completes. The benchmark
  // receives Ctrl-C, too, and then ends this process.
  std::signal(SIGINT, SIG_IGN);
  const OpenFile served(file);
  served_fd = served.fd();
  fuse_operations operations{};
  operations.getattr = attributes;
  operations.read = read_bytes;
  std::string mount_point = folder;
  std::array<char*, 3> arguments{const_cast<char*>("bench_load"), const_cast<char*>("-f"),
                                 mount_point.data()};
  return fuse_main(static_cast<int>(arguments.size()), arguments.data(), &operations, nullptr);
}

HighLatencyDisk::HighLatencyDisk(const std::filesystem::path& file, const std::filesystem::path& folder)
    : folder_(folder), server_({own_program(), "--serve", file.string(), folder.string()}) {}

HighLatencyDisk::~HighLatencyDisk() {
  // The server unmounts on SIGTERM. If it cannot, unmount here.
  server_.end();
  static_cast<void>(::umount2(folder_.c_str(), MNT_DETACH));
}

std::filesystem::path HighLatencyDisk::path() const { return folder_.string() + served_path; }

std::unique_ptr<HighLatencyDisk> HighLatencyDisk::mount(const std::filesystem::path& file,
                                                        const std::filesystem::path& folder) {
  std::filesystem::create_directory(folder);
  std::unique_ptr<HighLatencyDisk> disk(new HighLatencyDisk(file, folder));
  std::error_code ignored;
  while (!std::filesystem::exists(disk->path(), ignored)) {
    if (disk->server_.has_ended()) {
      std::printf("cell 'high latency, one pass' is left out: no FUSE file system can be mounted\n");
      return nullptr;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return disk;
}

}  // namespace ht::bench

#else
#include <cstdio>

namespace ht::bench {

int serve_high_latency_disk(const std::string&, const std::string&) { return 1; }

HighLatencyDisk::~HighLatencyDisk() = default;

std::filesystem::path HighLatencyDisk::path() const { return folder_; }

std::unique_ptr<HighLatencyDisk> HighLatencyDisk::mount(const std::filesystem::path&,
                                                        const std::filesystem::path&) {
  std::printf("cell 'high latency, one pass' is left out: libfuse3 was not installed at build time\n");
  return nullptr;
}

}  // namespace ht::bench

#endif
