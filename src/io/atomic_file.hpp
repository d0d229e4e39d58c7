// A file that appears under its name complete and synced to the disk, or not at all.
//
// Before the commit the file has no name, so that a killed process leaves nothing behind. If the file system
// does not support files without a name, the file has a hidden temporary name. The writer claims (locks) the
// file. The next writer in the folder removes unclaimed temporary files, unless a journal in the folder may
// still need them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <optional>
#include <string_view>

#include "io/port/port.hpp"

namespace ht::inline v1::io {

/// Temporary files are named `.htensor-….part`. While a folder has a file `.htensor-….journal`, unclaimed
/// temporary files stay: the journal may name them (model/journal/set_journal.hpp).
inline constexpr std::string_view temporary_prefix = ".htensor-";
inline constexpr std::string_view temporary_suffix = ".part";
inline constexpr std::string_view journal_suffix = ".journal";

/// Returns a new temporary name in the folder of `target`, unique within this process.
[[nodiscard]] std::filesystem::path new_temporary_name(const std::filesystem::path& target);

/// Returns the `already_exists` error.
[[nodiscard]] Error target_exists(const std::filesystem::path& target);

class AtomicFile {
 public:
  /// Creates the temporary file beside `target`.
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& target, IfExists if_exists,
                                                 Port& port);

  /// Creates the file under the caller's temporary name and claims it: the name serves as a lock. Returns
  /// nullopt while another writer has claimed a file of that name. Replaces an unclaimed file. `in_use` if a
  /// file of that name exists and the system cannot report whether it is claimed.
  [[nodiscard]] static Result<std::optional<AtomicFile>> create_locked(const std::filesystem::path& temporary,
                                                                       const std::filesystem::path& target,
                                                                       Port& port);

  /// Fails if `create` would refuse the target now, or if its folder does not exist. For callers that do much
  /// work before `create`.
  [[nodiscard]] static Result<void> check_target(const std::filesystem::path& target, IfExists if_exists,
                                                 Port& port);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  /// Removes the temporary file unless it was committed.
  ~AtomicFile();

  /// Allocates disk space for the whole file, so that a full disk fails before any write.
  [[nodiscard]] Result<void> allocate(std::uint64_t bytes);
  /// Sets the length without allocating space.
  [[nodiscard]] Result<void> resize(std::uint64_t bytes);
  /// Writes all bytes at the offset. Thread-safe.
  [[nodiscard]] Result<void> write(std::uint64_t offset, Bytes bytes) const;
  /// Writes through a direct handle of this file, from `Port::reopen_direct`, bypassing the page cache.
  [[nodiscard]] Result<void> write_by(FileHandle handle, std::uint64_t offset, Bytes bytes) const;
  /// Fsyncs the file. For callers that sync several files before any is renamed.
  [[nodiscard]] Result<void> sync() const;
  /// Fsyncs the file, renames it to the target, then fsyncs the folder.
  [[nodiscard]] Result<void> commit() &&;

  // The steps of `commit` after `sync`, for several files that are renamed together.

  /// Links a nameless file under its temporary name, so that it can be found after a kill.
  [[nodiscard]] Result<void> link_temporary_name();
  /// Renames the file to the target.
  [[nodiscard]] Result<void> put_in_place();
  /// Leaves the temporary name to the caller: the destructor will not remove it.
  void release() noexcept { owns_temporary_name_ = false; }
  /// Fsyncs the folder.
  [[nodiscard]] Result<void> sync_folder() const;
  /// Fsyncs the folder and closes the file.
  [[nodiscard]] Result<void> finish() &&;
  [[nodiscard]] Result<void> close() &&;

  [[nodiscard]] FileHandle handle() const noexcept { return handle_; }
  [[nodiscard]] Port& port() const noexcept { return *port_; }
  [[nodiscard]] const std::filesystem::path& target() const noexcept { return target_; }
  [[nodiscard]] const std::filesystem::path& temporary() const noexcept { return temporary_; }
  /// Returns the Error of a failed system call on the target.
  [[nodiscard]] Error failed(std::string_view rule, std::string_view action, std::error_code cause,
                             SourceLine where = SourceLine::here()) const;

 private:
  AtomicFile(Port& port, IfExists if_exists, std::filesystem::path target);
  [[nodiscard]] Result<void> open_folder();
  [[nodiscard]] Result<void> create_temporary(std::optional<Source::Rights> rights);
  [[nodiscard]] bool claim_temporary();
  [[nodiscard]] bool has_temporary_name() const;

  Port* port_;
  IfExists if_exists_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;   // the temporary name, which a nameless file gets later
  bool owns_temporary_name_ = false;  // whether the destructor has to remove `temporary_`
  FileHandle handle_;                 // negative while not open
  FileHandle folder_;                 // opened early, so that only its fsync can fail at the end
};

}  // namespace ht::inline v1::io
