// A file that appears under its name whole and on the disk, or not at all.
//
// Until then it has no name at all where the file system can do that, so that nothing is left of it whatever
// ends the process; elsewhere it has one that nobody takes for a model. It is claimed while it is written:
// what somebody left under such a name, and nobody claims, is removed by the next who writes into that
// folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1::io {

class AtomicFile {
 public:
  /// Makes the temporary file beside `target`.
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& target, IfExists if_exists,
                                                 Port& port);

  /// Whether `create` would refuse the target for what has its name now, for those who have much to do before
  /// they make it.
  [[nodiscard]] static Result<void> check_target(const std::filesystem::path& target, IfExists if_exists,
                                                 Port& port);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  /// Removes the temporary file unless it was committed.
  ~AtomicFile();

  /// Makes room for all of it now, so that a full disk shows before anything was written.
  [[nodiscard]] Result<void> allocate(std::uint64_t bytes);
  /// Sets the length and leaves holes.
  [[nodiscard]] Result<void> resize(std::uint64_t bytes);
  /// May be called by several threads at once.
  [[nodiscard]] Result<void> write(std::uint64_t offset, Bytes bytes) const;
  /// The same past the page cache, by a handle that `Port::reopen_direct` gave for this one.
  [[nodiscard]] Result<void> write_by(FileHandle handle, std::uint64_t offset, Bytes bytes) const;
  /// To the disk, as `commit` does it; for those who want several files there before any gets its name.
  [[nodiscard]] Result<void> sync() const;
  /// To the disk, then under the target's name, then the folder to the disk.
  [[nodiscard]] Result<void> commit() &&;

  // The steps of `commit` after `sync`, for several files whose renames have to follow each other closely.

  /// Renames the file to the target.
  [[nodiscard]] Result<void> put_in_place();
  /// Brings the folder to the disk.
  [[nodiscard]] Result<void> sync_folder() const;
  /// Brings the folder to the disk and closes the file.
  [[nodiscard]] Result<void> finish() &&;

  [[nodiscard]] FileHandle handle() const noexcept { return handle_; }
  [[nodiscard]] Port& port() const noexcept { return *port_; }
  [[nodiscard]] const std::filesystem::path& target() const noexcept { return target_; }
  /// What the system said of the target, as an Error.
  [[nodiscard]] Error failed(std::string_view rule, std::string_view action, std::error_code cause,
                             SourceLine where = SourceLine::here()) const;

 private:
  AtomicFile(Port& port, IfExists if_exists, std::filesystem::path target);
  [[nodiscard]] Result<void> make(std::optional<FileRights> rights);
  [[nodiscard]] bool claim();

  Port* port_;
  IfExists if_exists_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;  // what it is called, or will be before it gets the target's name
  bool named_ = false;               // whether there is something to remove
  FileHandle handle_;                // negative while it is not open
  FileHandle folder_;                // opened at the start, so that only syncing it can fail at the end
};

}  // namespace ht::inline v1::io
