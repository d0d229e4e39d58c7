#include "model/journal/set_replacement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/format_text.hpp"
#include "io/port/port.hpp"
#include "io/port/system_error.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

Error in_use(const Path& member) {
  return Error(ErrorCode::in_use, "set_has_one_writer", "another program is writing this set")
      .at_path(member.native())
      .with_hint("retry when the other program has finished");
}

// The steps of a replacement. Each step can be repeated after a kill: a rename whose source does not exist is
// already done. The constructor allocates all memory, because an exception between two steps would leave
// neither set complete.
class Replacement {
 public:
  Replacement(Path journal, const SetJournal& files, IfExists if_exists, io::Port& port)
      : journal_(std::move(journal)),
        old_(paths_of(files.old_files)),
        new_(paths_of(files.new_files)),
        if_exists_(if_exists),
        port_(port) {}
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    if (handle_.value >= 0) static_cast<void>(port_.close(handle_));
  }

  Result<void> open() {
    const auto handle = port_.open(journal_.has_parent_path() ? journal_.parent_path() : Path("."));
    if (!handle) {
      return fail(io::system_error(ErrorCode::write_failed, "folder_can_be_opened", "open its folder",
                                   journal_, handle.error()));
    }
    handle_ = *handle;
    return {};
  }

  Result<void> roll_forward() {
    if (HT_TRY(file_exists(new_.back().temporary, port_))) {
      HT_TRY(check_new_files());
      HT_TRY(sync());
      for (const auto& old : old_) {
        if (!HT_TRY(file_exists(old.temporary, port_)))
          HT_TRY(rename(old.name, old.temporary, IfExists::replace));
        // From here on the journal is committed. Without this fsync a disk may keep later renames and lose
        // this one.
        if (&old == &old_.front()) HT_TRY(sync());
      }
      HT_TRY(sync());
      for (const auto& file : new_) {
        if (&file == &new_.back()) HT_TRY(sync());
        HT_TRY(rename(file.temporary, file.name, if_exists_));
        ++placed_;
      }
    }
    HT_TRY(sync());
    for (const auto& file : new_) {
      if (!HT_TRY(file_exists(file.name, port_))) return fail(missing(file));
    }
    is_in_place_ = true;
    return remove_old();
  }

  /// Whether the new set is in place, so that only the removal of old files is left.
  [[nodiscard]] bool is_in_place() const noexcept { return is_in_place_; }

  /// Undoes `roll_forward` in this process, and removes the new files.
  Result<void> roll_back() {
    for (; placed_ > 0; --placed_)
      HT_TRY(rename(new_[placed_ - 1].name, new_[placed_ - 1].temporary, IfExists::replace));
    HT_TRY(sync());
    for (auto old = old_.rbegin(); old != old_.rend(); ++old) {
      // Once the first old file has its name again, the journal is no longer committed.
      if (&*old == &old_.front()) HT_TRY(sync());
      HT_TRY(rename(old->temporary, old->name, IfExists::replace));
    }
    HT_TRY(sync());
    return cancel();
  }

  /// Cancels a replacement that is not committed. Removes the journal first: a journal without its new files
  /// would count as completed.
  Result<void> cancel() {
    HT_TRY(remove(journal_));
    HT_TRY(sync());
    for (const auto& file : new_) HT_TRY(remove(file.temporary));
    return {};
  }

 private:
  struct File {
    Path name;
    Path temporary;
  };

  [[nodiscard]] std::vector<File> paths_of(const std::vector<SetJournal::File>& files) const {
    std::vector<File> paths;
    paths.reserve(files.size());
    const auto folder = journal_.parent_path();
    for (const auto& file : files) paths.push_back({folder / file.name, folder / file.temporary});
    return paths;
  }

  [[nodiscard]] Error missing(const File& file) const {
    return Error(ErrorCode::missing_shard, "journaled_files_exist",
                 format_text("the set was being replaced, and its new file '{}' is missing",
                             file.temporary.filename().native()))
        .at_path(journal_.native())
        .with_hint("restore the file, or remove the journal and write the set again");
  }

  // Fails if a new file is missing, because a user may have removed temporary files. In this case
  // `roll_forward` does not rename or remove any file.
  [[nodiscard]] Result<void> check_new_files() const {
    for (const auto& file : new_) {
      if (HT_TRY(file_exists(file.temporary, port_))) continue;
      const auto old = std::ranges::find(old_, file.name, &File::name);
      const bool is_name_free = old == old_.end() || HT_TRY(file_exists(old->temporary, port_));
      if (!is_name_free || !HT_TRY(file_exists(file.name, port_))) return fail(missing(file));
    }
    return {};
  }

  static Error failed(std::string_view rule, std::string_view action, const Path& path,
                      std::error_code cause) {
    const bool is_full = cause == std::errc::no_space_on_device;
    return io::system_error(is_full ? ErrorCode::no_space : ErrorCode::write_failed, rule, action, path,
                            cause);
  }

  Result<void> rename(const Path& from, const Path& to, IfExists if_exists) {
    const auto done = port_.rename(from, to, if_exists);
    if (done || is_missing(done.error())) return {};
    if (done.error() == std::errc::file_exists) return fail(io::target_exists(to));
    return fail(failed("file_can_be_renamed", "rename into place", to, done.error()));
  }

  Result<void> remove(const Path& path) {
    // Retries once. If that fails too, the next writer has to remove the file.
    return remove_file(path, port_) ? Result<void>() : remove_file(path, port_);
  }

  // The new set is in place. All steps are performed even if some fail; the first failure is returned.
  Result<void> remove_old() {
    Result<void> first;
    const auto keep = [&](Result<void> step) {
      if (first) first = std::move(step);
    };
    for (const auto& old : old_) keep(remove(old.temporary));
    keep(sync());
    keep(remove(journal_));
    keep(sync());
    return first;
  }

  Result<void> sync() {
    while (true) {
      const auto done = port_.sync(handle_);
      if (!done && done.error() == std::errc::interrupted) continue;
      // EINVAL is ignored: the file system cannot fsync folders.
      if (done || done.error() == std::errc::invalid_argument) return {};
      return fail(failed("folder_can_be_synced", "fsync its folder", journal_, done.error()));
    }
  }

  Path journal_;
  std::vector<File> old_;
  std::vector<File> new_;
  IfExists if_exists_;  // for the names of new files
  io::Port& port_;
  io::FileHandle handle_;
  std::size_t placed_ = 0;  // number of new files that this process renamed into place
  bool is_in_place_ = false;
};

// Returns the path of the lock file that a live writer holds until it has written the journal.
Path lock_path(const Path& member) {
  return member.parent_path() /
         fmt::format("{}{}{}", io::temporary_prefix, set_name_of(member), io::temporary_suffix);
}

// Number of attempts: other writers may finish or write a journal several times in a row.
constexpr int max_tries = 8;

}  // namespace

Result<bool> file_exists(const Path& path, io::Port& port) {
  const auto stat = port.stat(path);
  if (!stat && !is_missing(stat.error())) {
    return fail(
        io::system_error(ErrorCode::write_failed, "target_can_be_examined", "stat", path, stat.error()));
  }
  return stat.has_value();
}

Result<void> remove_file(const Path& path, io::Port& port) {
  const auto done = port.unlink(path);
  if (done || is_missing(done.error())) return {};
  return fail(io::system_error(ErrorCode::write_failed, "old_files_can_be_removed", "remove the file", path,
                               done.error()));
}

Result<void> finish_set(const Path& member, io::Port& port) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto path = journal_path(member);
    for (int i = 0; i < max_tries; ++i) {
      const auto file = HT_TRY(open_journal(path, port));
      if (!file) return {};
      const auto claimed = port.claim(file->handle());
      if (!claimed && claimed.error() == std::errc::resource_unavailable_try_again)
        return fail(in_use(member));
      // Another writer may have finished the journal before the claim.
      const auto& opened = file->stat();
      const auto stat = port.stat(path);
      if (!stat || stat->device != opened.device || stat->inode != opened.inode) continue;
      if (!claimed) {
        return fail(io::system_error(ErrorCode::in_use, "lock_can_be_claimed",
                                     "find out whether another program is writing the set", path,
                                     claimed.error())
                        .with_hint("retry later; if no program is writing the set, write the set under "
                                   "another name, then remove this journal"));
      }
      const auto journal = HT_TRY(read_journal(*file, set_name_of(member)));
      Replacement replacement(path, journal, IfExists::replace, port);
      HT_TRY(replacement.open());
      return HT_TRY(is_committed(journal, path.parent_path(), port)) ? replacement.roll_forward()
                                                                     : replacement.cancel();
    }
    return fail(in_use(member));
  });
}

Result<SetLock> SetLock::acquire(const Path& member, io::Port& port) {
  const auto journal = journal_path(member);
  for (int i = 0; i < max_tries; ++i) {
    HT_TRY(finish_set(member, port));
    auto file = HT_TRY(io::AtomicFile::create_locked(lock_path(member), journal, port));
    if (!file) break;
    // Another writer may have renamed its lock file to the journal between the two calls.
    if (!HT_TRY(file_exists(journal, port))) return SetLock(*std::move(file), set_name_of(member));
  }
  return fail(in_use(member));
}

Result<std::optional<SetLock>> SetLock::recover_and_lock(bool is_of_set, const Path& member, io::Port& port) {
  if (is_of_set) return HT_TRY(acquire(member, port));
  HT_TRY(finish_set(member, port));
  return std::nullopt;
}

Result<void> SetLock::replace(std::span<const Path> old_files,
                              std::span<io::AtomicFile* const> new_files) && {
  SetJournal files;
  for (const auto& path : old_files)
    files.old_files.push_back({path.filename().string(), io::new_temporary_name(path).filename().string()});
  for (auto* const file : new_files) {
    HT_TRY(file->link_temporary_name());
    files.new_files.push_back({file->target().filename().string(), file->temporary().filename().string()});
  }
  const auto bytes = encode_journal(files);
  // A journal that the next writer cannot parse would leave neither set complete.
  HT_TRY(parse_journal(bytes, set_name_));
  HT_TRY(journal_.write(0, bytes));
  HT_TRY(journal_.sync());
  // `IfExists::fail`: old files are renamed first, so a file with a new name was created by another program.
  Replacement replacement(journal_.target(), files, IfExists::fail, journal_.port());
  HT_TRY(replacement.open());
  // The directory entries of the temporary files must reach the disk before that of the journal.
  HT_TRY(journal_.sync_folder());
  HT_TRY(journal_.put_in_place());
  // From here on the journal defines the set: its temporary files are kept even after a failure.
  for (auto* const file : new_files) file->release();
  auto done = replacement.roll_forward();
  if (!done && !replacement.is_in_place()) static_cast<void>(replacement.roll_back());
  HT_TRY(std::move(done));
  for (auto* const file : new_files) HT_TRY(std::move(*file).close());
  return std::move(journal_).close();
}

}  // namespace ht::inline v1
