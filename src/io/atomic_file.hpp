// A file that appears under its name whole and on the disk, or not at all.
//
// Until then the file has no name where the file system supports that, so that nothing is left of it whatever
// ends the process; elsewhere it has a hidden temporary name. The writer claims the file. The next writer in
// the folder removes temporary files that nobody claims, unless a journal in the folder may still need them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <optional>
#include <string_view>

namespace ht::inline v1::io {

/// Temporary files are named `.htensor-….part`. While a folder has a file `.htensor-….journal`, unclaimed
/// temporary files stay: the journal may name them (model/set_journal.hpp).
inline constexpr std::string_view temporary_prefix = ".htensor-";
inline constexpr std::string_view temporary_suffix = ".part";
inline constexpr std::string_view journal_suffix = ".journal";

/// A temporary name beside `target` that no other file has.
[[nodiscard]] std::filesystem::path new_temporary_name(const std::filesystem::path& target);

/// `already_exists`.
[[nodiscard]] Error target_exists(const std::filesystem::path& target);

class AtomicFile {
 public:
  /// Makes the temporary file beside `target`.
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& target, IfExists if_exists,
                                                 Port& port);

  /// Makes the file under a temporary name that the caller chose, so that the name is a lock: nullopt while
  /// another writer has claimed a file of that name. An unclaimed one is replaced; `in_use` if the system
  /// cannot tell.
  [[nodiscard]] static Result<std::optional<AtomicFile>> create_locked(const std::filesystem::path& temporary,
                                                                       const std::filesystem::path& target,
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

  /// Gives a nameless file its temporary name, so that it can be found after a kill.
  [[nodiscard]] Result<void> give_temporary_name();
  /// Renames the file to the target.
  [[nodiscard]] Result<void> put_in_place();
  /// Leaves the temporary name to the caller: the destructor does not remove it.
  void release() noexcept { named_ = false; }
  /// Brings the folder to the disk.
  [[nodiscard]] Result<void> sync_folder() const;
  /// Brings the folder to the disk and closes the file.
  [[nodiscard]] Result<void> finish() &&;
  [[nodiscard]] Result<void> close() &&;

  [[nodiscard]] FileHandle handle() const noexcept { return handle_; }
  [[nodiscard]] Port& port() const noexcept { return *port_; }
  [[nodiscard]] const std::filesystem::path& target() const noexcept { return target_; }
  [[nodiscard]] const std::filesystem::path& temporary() const noexcept { return temporary_; }
  /// What the system said of the target, as an Error.
  [[nodiscard]] Error failed(std::string_view rule, std::string_view action, std::error_code cause,
                             SourceLine where = SourceLine::here()) const;

 private:
  AtomicFile(Port& port, IfExists if_exists, std::filesystem::path target);
  [[nodiscard]] Result<void> open_folder();
  [[nodiscard]] Result<void> make(std::optional<FileRights> rights);
  [[nodiscard]] bool claim();
  [[nodiscard]] bool has_its_name() const;

  Port* port_;
  IfExists if_exists_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;  // what it is called, or will be before it gets the target's name
  bool named_ = false;               // whether there is something to remove
  FileHandle handle_;                // negative while it is not open
  FileHandle folder_;                // opened at the start, so that only syncing it can fail at the end
};

}  // namespace ht::inline v1::io
