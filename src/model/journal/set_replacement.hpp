// Replaces the files of a set so that a kill at any time leaves either the old set or the new one complete.
// docs/convert.md states the protocol.
#pragma once

#include <filesystem>
#include <htensor/base/result.hpp>
#include <optional>
#include <span>
#include <string>

#include "io/atomic_file.hpp"
#include "io/port/port.hpp"
#include "model/journal/set_journal.hpp"

namespace ht::inline v1 {

/// The writer's lock of a set: a claimed temporary file, which becomes the journal.
class SetLock {
 public:
  /// Calls `finish_set`, then acquires the lock of the set of `member`. `in_use` while another writer holds
  /// the lock, or if a lock file or a journal exists and the file system does not support locks.
  [[nodiscard]] static Result<SetLock> acquire(const std::filesystem::path& member, io::Port& port);

  /// Acquires the lock for a member of a set. For a single file, only calls `finish_set`.
  [[nodiscard]] static Result<std::optional<SetLock>> recover_and_lock(bool is_of_set,
                                                                       const std::filesystem::path& member,
                                                                       io::Port& port);

  /// Replaces the old files by the new ones. The caller must have written and synced the new files. The file
  /// by which the set is opened is the first old file and the last new file. A file that another program
  /// created under a new name is not overwritten: `already_exists`. After a failure the old set is restored,
  /// unless the new set is already in place and only the removal of the old files has failed. If restoring
  /// fails too, the journal stays for the next writer.
  [[nodiscard]] Result<void> replace(std::span<const std::filesystem::path> old_files,
                                     std::span<io::AtomicFile* const> new_files) &&;

 private:
  SetLock(io::AtomicFile file, std::string set_name) noexcept
      : journal_(std::move(file)), set_name_(std::move(set_name)) {}
  io::AtomicFile journal_;
  std::string set_name_;
};

/// Whether a file exists. An error if `stat` fails for any reason but a missing file: the file may exist.
[[nodiscard]] Result<bool> file_exists(const std::filesystem::path& path, io::Port& port);

/// Removes a file if it exists.
[[nodiscard]] Result<void> remove_file(const std::filesystem::path& path, io::Port& port);

/// Finishes the journal that a killed writer left for the set of `member`: completes the new set if the
/// journal is committed, else removes the new files and keeps the old set. `in_use` while the writer is
/// alive. Costs one system call if there is no journal.
[[nodiscard]] Result<void> finish_set(const std::filesystem::path& member, io::Port& port);

}  // namespace ht::inline v1
