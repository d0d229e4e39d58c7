// Disk and memory space for the benchmark: a temporary folder, and a check of available memory.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <htensor/load/load.hpp>
#include <string>

#include "bench/harness/must.hpp"

namespace ht::bench {

// A temporary folder, deleted with its contents, also after an exception.
class Folder {
 public:
  explicit Folder(const std::filesystem::path& in = std::filesystem::temp_directory_path())
      : name_((in / "htensor-bench-XXXXXX").string()) {
    system_must(mkdtemp(name_.data()) != nullptr, name_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(name_, ignored);
  }

  [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const {
    return std::filesystem::path(name_) / name;
  }

 private:
  std::string name_;
};

/// Throws if less than 3.5 times `bytes` of memory is available. The page cache, the destination and the
/// library's own memory together need at most 3.5 times `bytes`. With less, swapping would distort the
/// results.
inline void must_fit(std::uint64_t bytes) {
  const auto available = value_of(available_memory());
  must(available / 7 * 2 >= bytes, "not enough memory: the benchmark needs 3.5 times --size");
}

}  // namespace ht::bench
