// Room for what is measured: a folder, and memory.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <htensor/io/port.hpp>
#include <string>

#include "bench/load/must.hpp"

namespace ht::bench {

// Gone with all that is in it, also when something fails.
class Folder {
 public:
  explicit Folder(const std::filesystem::path& in) : name_((in / "htensor-bench-XXXXXX").string()) {
    system_must(mkdtemp(name_.data()) != nullptr, name_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(name_, ignored);
  }

  [[nodiscard]] std::filesystem::path operator/(const char* name) const {
    return std::filesystem::path(name_) / name;
  }

 private:
  std::string name_;
};

/// The page cache, the memory that is copied to, and what the library takes itself are 3.5 times the file at
/// most: who swaps measures the disk.
inline void must_fit(std::uint64_t bytes) {
  const auto available = value_of(io::system_port().available_memory(), "available memory");
  must(available / 7 * 2 >= bytes, "not enough memory for a file of this --size: it takes 3.5 times that");
}

}  // namespace ht::bench
