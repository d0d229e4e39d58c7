#include "bench/harness/page_cache.hpp"
#include "bench/harness/must.hpp"
#include "src/io/port/port.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace ht::bench {
namespace {

class CachedFile {
 public:
  explicit CachedFile(const std::filesystem::path& path)
      : path_(path.string()), file_(value_of(port_.open(path), path_)) {
    bytes_ = value_of(port_.stat(file_), path_).bytes;
  }
  CachedFile(const CachedFile&) = delete;
  CachedFile& operator=(const CachedFile&) = delete;
  ~CachedFile() { static_cast<void>(port_.close(file_)); }  // opened read-only, so errors do not matter

  [[nodiscard]] double cached_share() {
    io::Source::CacheQuery whole{.offset = 0, .bytes = bytes_};
    value_of(port_.cached(file_, {&whole, 1}), path_);
    return static_cast<double>(whole.cached_bytes) / static_cast<double>(bytes_);
  }
  // Dirty pages cannot be evicted, so they are synced first. FUSE file systems may not support sync.
  void evict() {
    static_cast<void>(port_.sync(file_));
    value_of(port_.drop_cached(file_, 0, bytes_), path_);
  }
  void read() {
    std::vector<std::byte> buffer(std::size_t{8} << 20);
    for (std::uint64_t at = 0; at < bytes_;) {
      const auto count = value_of(port_.read_at(file_, at, buffer), path_);
      must(count > 0, path_ + " ends too early");
      at += count;
    }
  }

 private:
  io::Port& port_ = io::system_port();
  std::string path_;
  io::FileHandle file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

bool make_cold(const std::filesystem::path& path, int tries) {
  CachedFile file(path);
  for (;;) {
    file.evict();
    if (file.cached_share() <= 0.01) return true;
    if (--tries == 0) return false;
    // Pages in use cannot be evicted; retry after a pause.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void check_eviction(const std::filesystem::path& path) {
  if (make_cold(path)) return;
  std::printf("%s cannot be evicted from the page cache, so cells named \"cold\" cannot be measured cold\n",
              path.c_str());
}

void make_warm(const std::filesystem::path& path) {
  CachedFile file(path);
  for (int tries = 0; tries < 3; ++tries) {
    if (file.cached_share() >= 1) return;
    file.read();
  }
  must(file.cached_share() >= 0.99, path.string() + " does not stay in the page cache: memory is too small");
}

bool is_warm(const std::filesystem::path& path) { return CachedFile(path).cached_share() >= 0.99; }

}  // namespace ht::bench
