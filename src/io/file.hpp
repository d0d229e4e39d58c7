// An open file and all that belongs to it: closed when it goes.
#pragma once

#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <memory>

namespace ht::inline v1::io {

class File {
 public:
  [[nodiscard]] static Result<std::unique_ptr<File>> open_regular(const std::filesystem::path& path,
                                                                  Port& port);

  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  [[nodiscard]] Port& port() const noexcept { return port_; }
  [[nodiscard]] FileHandle handle() const noexcept { return handle_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const FileStat& stat() const noexcept { return stat_; }

  /// Loops over short and interrupted reads.
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableBytes into) const;
  /// `changed_underfoot` if the contents may have changed since the file was opened: size or mtime differ, or
  /// ctime does and neither a link, nor a change of rights, nor a rename explains it.
  [[nodiscard]] Result<void> check_unchanged() const;

 private:
  [[nodiscard]] bool may_have_other_contents(const FileStat& now) const;
  File(std::filesystem::path path, Port& port) : port_(port), path_(std::move(path)) {}

  Port& port_;
  FileHandle handle_;  // negative until it is open
  std::filesystem::path path_;
  FileStat stat_;
};

class Mapped;
class Opened;
/// The file that is mapped, or opened and not yet mapped or moved from.
[[nodiscard]] const File& file_of(const Mapped& mapped) noexcept;
[[nodiscard]] const File& file_of(const Opened& opened) noexcept;

}  // namespace ht::inline v1::io
