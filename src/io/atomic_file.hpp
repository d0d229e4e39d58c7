// A file that appears under its name whole and on the disk, or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>

namespace ht::inline v1::io {

class AtomicFile {
 public:
  /// Makes the temporary file beside `target`.
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& target, IfExists if_exists,
                                                 Port& port);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  /// Removes the temporary file unless it was committed.
  ~AtomicFile();

  /// Makes room for all of it now, so that a full disk shows before anything was written.
  [[nodiscard]] Result<void> allocate(std::uint64_t bytes);
  /// Sets the length and leaves holes.
  [[nodiscard]] Result<void> resize(std::uint64_t bytes);
  [[nodiscard]] Result<void> write(std::uint64_t offset, Bytes bytes);
  /// To the disk, then under the target's name, then the folder to the disk.
  [[nodiscard]] Result<void> commit() &&;

 private:
  AtomicFile(Port& port, IfExists if_exists, std::filesystem::path target);
  [[nodiscard]] Error failed(std::string_view rule, std::string_view action, std::error_code cause,
                             SourceLine where = SourceLine::here()) const;

  Port* port_;
  IfExists if_exists_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty while there is nothing to remove
  FileHandle handle_;                // negative while it is not open
  FileHandle folder_;                // opened at the start, so that only syncing it can fail at the end
};

}  // namespace ht::inline v1::io
