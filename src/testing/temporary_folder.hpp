// A folder for one test, deleted with its contents when the test ends.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

namespace ht::testing {

class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  /// The names of its entries, sorted.
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

/// Returns all bytes of a file; empty if it is missing, so that comparisons in the test fail.
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& path);

void write_file(const std::filesystem::path& path, std::string_view text);
void write_file(const std::filesystem::path& path, const std::vector<std::byte>& bytes);

}  // namespace ht::testing
