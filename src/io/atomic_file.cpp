#include "io/atomic_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/format_text.hpp"
#include "io/port/port.hpp"
#include "io/port/system_error.hpp"

namespace ht::inline v1::io {
namespace {

std::filesystem::path folder_of(const std::filesystem::path& target) {
  return target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
}

// Other writers may take or remove a name several times in a row.
constexpr int max_attempts = 8;

// Repeats the call while it fails with EINTR.
template <class Call>
IoResult<void> retry_if_interrupted(Call call) {
  while (true) {
    auto done = call();
    if (done || done.error() != std::errc::interrupted) return done;
  }
}

ErrorCode code_for(std::error_code cause) {
  const bool full = cause == std::errc::no_space_on_device || cause.value() == EDQUOT;
  return full ? ErrorCode::no_space : ErrorCode::write_failed;
}

// Returns the owner and permissions of the existing target, which the new file gets; nullopt if there is no
// target.
Result<std::optional<Source::Rights>> stat_target(const std::filesystem::path& target, IfExists if_exists,
                                                  Port& port) {
  const auto found = port.stat(target);
  if (!found) {
    if (found.error() == std::errc::no_such_file_or_directory) return std::nullopt;
    return fail(
        system_error(ErrorCode::write_failed, "target_can_be_examined", "stat", target, found.error()));
  }
  if (found->kind != FileKind::regular) {
    return fail(Error(ErrorCode::not_regular_file, "target_is_a_regular_file",
                      "target exists and is not a regular file")
                    .at_path(target.native())
                    .with_hint("use another name"));
  }
  if (if_exists == IfExists::fail) return fail(target_exists(target));
  return found->rights;
}

// Whether the name has the prefix of the library and this suffix. Writers in all processes use such names.
bool has_library_name(std::string_view name, std::string_view suffix) {
  return name.starts_with(temporary_prefix) && name.ends_with(suffix);
}

bool may_have_journal(const std::filesystem::path& folder, Port& port) {
  const auto names = port.list(folder);
  return !names ||
         std::ranges::any_of(*names, [](const auto& name) { return has_library_name(name, journal_suffix); });
}

bool is_same_file(const IoResult<FileStat>& a, const IoResult<FileStat>& b) {
  return a && b && a->device == b->device && a->inode == b->inode;
}

// Claims a regular file, and removes it if no other writer holds the claim and `may_remove` then returns
// true. Returns the error of `open`, `claim` or `unlink`; `is_a_directory` for a file that is not regular.
template <class Condition>
IoResult<void> remove_abandoned(const std::filesystem::path& path, Port& port, const Condition& may_remove) {
  const auto file = port.open(path);
  if (!file && file.error() == std::errc::no_such_file_or_directory) return {};
  if (!file) return tl::unexpected(file.error());
  const auto opened = port.stat(*file);
  auto done = port.claim(*file);
  if (done && opened && opened->kind != FileKind::regular) {
    done = tl::unexpected(std::make_error_code(std::errc::is_a_directory));
    // Another writer may have replaced the file before the claim.
  } else if (done && is_same_file(opened, port.stat(path)) && may_remove()) {
    done = port.unlink(path);
    if (!done && done.error() == std::errc::no_such_file_or_directory) done = {};
  }
  static_cast<void>(port.close(*file));
  return done;
}

// Removes temporary files of killed writers. A live writer claims its file before the file has a name or,
// where that is not possible, checks after the claim that the file still has its name. Failures to remove a
// leftover are ignored.
void remove_leftovers(const std::filesystem::path& folder, Port& port) {
  const auto names = port.list(folder);
  if (!names) return;
  // Journals are checked after the claim: the writer is dead by then, so its journal cannot appear later.
  const auto has_no_journal = [&] { return !may_have_journal(folder, port); };
  for (const auto& name : *names) {
    if (has_library_name(name, temporary_suffix))
      static_cast<void>(remove_abandoned(folder / name, port, has_no_journal));
  }
}

bool is_unsupported(std::error_code cause) {
  return cause == std::errc::operation_not_supported || cause == std::errc::function_not_supported ||
         cause == std::errc::invalid_argument || cause == std::errc::no_lock_available;
}

}  // namespace

Error target_exists(const std::filesystem::path& target) {
  return Error(ErrorCode::already_exists, "target_is_free", "file already exists")
      .at_path(target.native())
      .with_hint("use another name, or --force to replace it");
}

// The name is short, hidden, and without the extension of a weights file. Another process may choose the same
// name; creating or naming the file then fails with `file_exists`.
std::filesystem::path new_temporary_name(const std::filesystem::path& target) {
  static std::atomic<std::uint64_t> count{0};
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return folder_of(target) /
         fmt::format("{}{:016x}-{:x}{}", temporary_prefix, now, count++, temporary_suffix);
}

AtomicFile::AtomicFile(Port& port, IfExists if_exists, std::filesystem::path target)
    : port_(&port), if_exists_(if_exists), target_(std::move(target)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : port_(other.port_),
      if_exists_(other.if_exists_),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      owns_temporary_name_(std::exchange(other.owns_temporary_name_, false)),
      handle_(std::exchange(other.handle_, FileHandle{})),
      folder_(std::exchange(other.folder_, FileHandle{})) {}

AtomicFile::~AtomicFile() {
  // A destructor cannot report failures. The file is closed, which ends the claim, after the unlink:
  // otherwise another writer could take the name, and the unlink would remove its file.
  if (owns_temporary_name_) static_cast<void>(port_->unlink(temporary_));
  if (handle_.value >= 0) static_cast<void>(port_->close(handle_));
  if (folder_.value >= 0) static_cast<void>(port_->close(folder_));
}

Error AtomicFile::failed(std::string_view rule, std::string_view action, std::error_code cause,
                         SourceLine where) const {
  return system_error(code_for(cause), rule, action, target_, cause, where);
}

Result<void> AtomicFile::check_target(const std::filesystem::path& target, IfExists if_exists, Port& port) {
  HT_TRY(stat_target(target, if_exists, port));
  const auto folder = port.stat(folder_of(target));
  if (folder && folder->kind == FileKind::folder) return {};
  const auto cause = folder ? std::make_error_code(std::errc::not_a_directory) : folder.error();
  return fail(system_error(ErrorCode::write_failed, "folder_exists", "find its folder", target, cause));
}

Result<AtomicFile> AtomicFile::create(const std::filesystem::path& target, IfExists if_exists, Port& port) {
  const auto rights = HT_TRY(stat_target(target, if_exists, port));
  AtomicFile file(port, if_exists, target);
  HT_TRY(file.open_folder());
  remove_leftovers(folder_of(target), port);
  HT_TRY(file.create_temporary(rights));
  return file;
}

Result<std::optional<AtomicFile>> AtomicFile::create_locked(const std::filesystem::path& temporary,
                                                            const std::filesystem::path& target, Port& port) {
  AtomicFile file(port, IfExists::fail, target);
  HT_TRY(file.open_folder());
  file.temporary_ = temporary;
  std::error_code cause;
  for (int i = 0; i < max_attempts; ++i) {
    const auto handle = port.create(temporary, std::nullopt);
    if (handle) {
      file.handle_ = *handle;
      file.owns_temporary_name_ = true;
      const auto claimed = port.claim(*handle);
      const bool is_refused = !claimed && claimed.error() == std::errc::resource_unavailable_try_again;
      // Another writer would remove an unclaimed lock file as a leftover, so a failed claim is an error. A
      // file system without flock is an exception: no writer removes leftovers there.
      if (!claimed && !is_refused && !is_unsupported(claimed.error()))
        return fail(file.failed("file_can_be_created", "lock a file in its folder", claimed.error()));
      if (!is_refused && file.has_temporary_name()) return file;
      file.owns_temporary_name_ = false;
      static_cast<void>(port.close(std::exchange(file.handle_, FileHandle{})));
      continue;
    }
    cause = handle.error();
    if (cause == std::errc::file_exists) {
      const auto removed = remove_abandoned(temporary, port, [] { return true; });
      if (removed) continue;
      if (removed.error() != std::errc::resource_unavailable_try_again) {
        return fail(system_error(ErrorCode::in_use, "lock_can_be_claimed",
                                 "find out whether another program is writing this model", temporary,
                                 removed.error())
                        .with_hint("retry later; if no program is writing the model, remove this lock file"));
      }
      // A writer that removes leftovers claims each of them for a moment.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } else if (cause != std::errc::interrupted) {
      return fail(file.failed("file_can_be_created", "create a file in its folder", cause));
    }
  }
  return std::nullopt;
}

Result<void> AtomicFile::open_folder() {
  const auto folder = port_->open(folder_of(target_));
  if (!folder) {
    return fail(system_error(ErrorCode::write_failed, "folder_can_be_opened", "open its folder", target_,
                             folder.error()));
  }
  folder_ = *folder;
  return {};
}

// Claims the file. Returns false if another writer has claimed it or removed it as a leftover between its
// creation and the claim. Ignores other failures of the claim: on a file system without flock, no writer
// removes leftovers.
bool AtomicFile::claim_temporary() {
  const auto claimed = port_->claim(handle_);
  if (!owns_temporary_name_) return true;
  if (!claimed && claimed.error() == std::errc::resource_unavailable_try_again) return false;
  return has_temporary_name();
}

bool AtomicFile::has_temporary_name() const {
  const auto found = port_->stat(temporary_);
  if (!found) return found.error() != std::errc::no_such_file_or_directory;
  const auto own = port_->stat(handle_);
  return !own || is_same_file(found, own);
}

Result<void> AtomicFile::create_temporary(std::optional<Source::Rights> rights) {
  bool can_be_nameless = true;
  std::error_code cause;
  for (int i = 0; i < max_attempts; ++i) {
    // All memory is allocated before the file is created: nothing can throw between creation and ownership.
    temporary_ = new_temporary_name(target_);
    const auto handle = can_be_nameless ? port_->create_nameless(folder_of(target_), rights)
                                        : port_->create(temporary_, rights);
    if (handle) {
      handle_ = *handle;
      owns_temporary_name_ = !can_be_nameless;
      if (claim_temporary()) return {};
      cause = std::make_error_code(std::errc::resource_unavailable_try_again);
      static_cast<void>(port_->close(std::exchange(handle_, FileHandle{})));
      owns_temporary_name_ = false;
      continue;
    }
    cause = handle.error();
    const bool falls_back_to_name =
        std::exchange(can_be_nameless, can_be_nameless && !is_unsupported(cause)) && is_unsupported(cause);
    if (!falls_back_to_name && cause != std::errc::file_exists && cause != std::errc::interrupted) break;
  }
  return fail(failed("file_can_be_created", "create a file in its folder", cause));
}

Result<void> AtomicFile::allocate(std::uint64_t bytes) {
  const auto done = retry_if_interrupted([&] { return port_->allocate(handle_, bytes); });
  if (done) return {};
  // Some file systems cannot preallocate; a full disk then fails the writes.
  const bool cannot =
      done.error() == std::errc::operation_not_supported || done.error() == std::errc::function_not_supported;
  if (cannot) return resize(bytes);
  return fail(failed("disk_has_space", format_text("reserve {} bytes on the disk", bytes), done.error()));
}

Result<void> AtomicFile::resize(std::uint64_t bytes) {
  const auto done = retry_if_interrupted([&] { return port_->resize(handle_, bytes); });
  if (done) return {};
  return fail(
      failed("file_size_can_be_set", format_text("set the file size to {} bytes", bytes), done.error()));
}

Result<void> AtomicFile::write(std::uint64_t offset, Bytes bytes) const {
  return write_by(handle_, offset, bytes);
}

Result<void> AtomicFile::write_by(FileHandle handle, std::uint64_t offset, Bytes bytes) const {
  while (!bytes.empty()) {
    const auto count = port_->write_at(handle, offset, bytes);
    if (!count) {
      if (count.error() == std::errc::interrupted) continue;
      return fail(failed("bytes_can_be_written", "write", count.error()).at_offset(offset));
    }
    if (*count == 0) {
      return fail(failed("write_makes_progress", "write", std::make_error_code(std::errc::io_error))
                      .at_offset(offset));
    }
    offset += *count;
    bytes = bytes.subspan(static_cast<std::size_t>(*count));
  }
  return {};
}

Result<void> AtomicFile::sync() const {
  const auto done = retry_if_interrupted([&] { return port_->sync(handle_); });
  if (!done) return fail(failed("file_can_be_synced", "fsync", done.error()));
  return {};
}

Result<void> AtomicFile::put_in_place() {
  const auto refused = [&](std::error_code cause) {
    if (cause == std::errc::file_exists) return fail(target_exists(target_));
    return fail(failed("file_can_be_renamed", "rename into place", cause));
  };
  if (!owns_temporary_name_ && if_exists_ == IfExists::fail) {
    const auto done = port_->name(handle_, target_);
    return done ? Result<void>() : refused(done.error());
  }
  HT_TRY(link_temporary_name());
  if (const auto done = port_->rename(temporary_, target_, if_exists_); !done) return refused(done.error());
  owns_temporary_name_ = false;
  return {};
}

Result<void> AtomicFile::link_temporary_name() {
  if (owns_temporary_name_) return {};
  const auto done = port_->name(handle_, temporary_);
  if (!done) return fail(failed("file_can_be_named", "link into the folder", done.error()));
  owns_temporary_name_ = true;
  return {};
}

Result<void> AtomicFile::sync_folder() const {
  const auto done = retry_if_interrupted([&] { return port_->sync(folder_); });
  // EINVAL is ignored: the file system cannot fsync a folder.
  if (!done && done.error() != std::errc::invalid_argument) {
    return fail(failed("folder_can_be_synced", "fsync its folder", done.error()));
  }
  return {};
}

Result<void> AtomicFile::finish() && {
  HT_TRY(sync_folder());
  return std::move(*this).close();
}

// Closing ends the claim, so the file is closed after the rename: other writers remove temporary files that
// are not claimed.
Result<void> AtomicFile::close() && {
  if (const auto closed = port_->close(std::exchange(handle_, FileHandle{})); !closed) {
    return fail(failed("file_can_be_closed", "close", closed.error()));
  }
  return {};
}

Result<void> AtomicFile::commit() && {
  HT_TRY(sync());
  HT_TRY(put_in_place());
  return std::move(*this).finish();
}

}  // namespace ht::inline v1::io
