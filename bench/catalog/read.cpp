#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "bench/catalog/task.hpp"

namespace ht::bench {
namespace {

std::unique_ptr<std::byte[]> read_file(const std::filesystem::path& path, std::size_t bytes) {
  auto buffer = std::make_unique_for_overwrite<std::byte[]>(bytes);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool all = fd >= 0 && ::pread(fd, buffer.get(), bytes, 0) == static_cast<ssize_t>(bytes);
  if (fd >= 0) ::close(fd);
  if (!all) buffer.reset();
  return buffer;
}

// Skips the fields of a GGUF header. Trusts all lengths, unlike a real reader.
class Walk {
 public:
  explicit Walk(const std::byte* at) : at_(at) {}

  template <class T>
  T read_number() {
    T value{};
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  void skip(std::size_t bytes) { at_ += bytes; }
  void skip_string() { skip(read_number<std::uint64_t>()); }
  [[nodiscard]] const std::byte* at() const { return at_; }

  void skip_value(std::uint32_t type) {
    constexpr std::array<std::size_t, 13> sizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) return skip_string();
    if (type != 9) return skip(sizes[type]);
    const auto element = read_number<std::uint32_t>();
    const auto count = read_number<std::uint64_t>();
    if (element == 8) {
      for (std::uint64_t i = 0; i < count; ++i) skip_string();
    } else {
      skip(sizes[element] * count);
    }
  }

 private:
  const std::byte* at_;
};

}  // namespace

std::size_t read_header_bytes(const std::filesystem::path& path, std::size_t header_bytes) {
  const auto buffer = read_file(path, header_bytes);
  return buffer ? header_bytes : 0;
}

std::size_t walk_gguf(const std::filesystem::path& path, std::size_t header_bytes) {
  const auto buffer = read_file(path, header_bytes);
  if (!buffer) return 0;
  Walk walk(buffer.get());
  walk.skip(8);
  const auto tensors = walk.read_number<std::uint64_t>();
  const auto keys = walk.read_number<std::uint64_t>();
  for (std::uint64_t i = 0; i < keys; ++i) {
    walk.skip_string();
    walk.skip_value(walk.read_number<std::uint32_t>());
  }
  std::size_t passed = 0;
  for (; passed < tensors; ++passed) {
    walk.skip_string();
    walk.skip(8 * std::size_t{walk.read_number<std::uint32_t>()} + 12);
  }
  // Using the end position keeps the compiler from removing the walk.
  return walk.at() <= buffer.get() + header_bytes ? passed : 0;
}

}  // namespace ht::bench
