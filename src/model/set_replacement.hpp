// Replacing the files of a set so that a kill at any moment leaves the old set or the new one, each whole:
// docs/convert.md states the protocol.
#pragma once

#include <filesystem>
#include <htensor/base/result.hpp>
#include <optional>
#include <span>
#include <string>

#include "io/atomic_file.hpp"
#include "model/set_journal.hpp"

namespace ht::inline v1 {

/// The writer's lock of a set: a claimed temporary file, which becomes the journal.
class SetLock {
 public:
  /// Finishes a journal of a killed writer first. `in_use` while another writer is at work, or where the file
  /// system cannot rule that out.
  [[nodiscard]] static Result<SetLock> acquire(const std::filesystem::path& member, io::Port& port);

  /// The lock for a member of a set. For a file of its own nothing is locked, and a journal of its name is
  /// finished.
  [[nodiscard]] static Result<std::optional<SetLock>> acquire_if(bool is_of_set,
                                                                 const std::filesystem::path& member,
                                                                 io::Port& port);

  /// Replaces the old files by the new ones, which are written and synced. The file that the set is opened by
  /// is the first of the old ones and the last of the new ones. A file of another program that has a new name
  /// meanwhile stays: `already_exists`. After a failure the old set is in place again; should that fail too,
  /// the journal stays, and with it the new set.
  [[nodiscard]] Result<void> replace(std::span<const std::filesystem::path> old_files,
                                     std::span<io::AtomicFile* const> new_files) &&;

 private:
  SetLock(io::AtomicFile file, std::string set_name) noexcept
      : journal_(std::move(file)), set_name_(std::move(set_name)) {}
  io::AtomicFile journal_;
  std::string set_name_;
};

/// Removes a file if it exists.
[[nodiscard]] Result<void> remove_file(const std::filesystem::path& path, io::Port& port);

/// Finishes the journal that a killed writer left for the set that `member` is of: to the new set if the
/// journal is in effect, else back to the old one. `in_use` while the writer is at work. Costs one call where
/// there is no journal.
[[nodiscard]] Result<void> finish_set(const std::filesystem::path& member, io::Port& port);

}  // namespace ht::inline v1
