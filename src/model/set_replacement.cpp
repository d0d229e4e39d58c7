#include "model/set_replacement.hpp"

#include <algorithm>
#include <utility>

#include "base/format_text.hpp"
#include "io/system_error.hpp"

namespace ht::inline v1 {
namespace {

using Path = std::filesystem::path;

bool is_missing(std::error_code cause) { return cause == std::errc::no_such_file_or_directory; }

Error in_use(const Path& member) {
  return Error(ErrorCode::in_use, "set_has_one_writer", "another program is writing this set")
      .at_path(member.native())
      .with_hint("retry when the other program has finished");
}

// The steps of a replacement. Each may be taken again after a kill: a file that has no longer the name that a
// step renames was renamed before.
class Replacement {
 public:
  Replacement(Path journal, SetJournal files, io::Port& port)
      : journal_(std::move(journal)), files_(std::move(files)), port_(port) {}
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    if (handle_.value >= 0) static_cast<void>(port_.close(handle_));
  }

  Result<void> open() {
    const auto handle = port_.open(folder_.empty() ? Path(".") : folder_);
    if (!handle) {
      return fail(io::system_error(ErrorCode::write_failed, "folder_can_be_opened", "open its folder",
                                   journal_, handle.error()));
    }
    handle_ = *handle;
    return {};
  }

  [[nodiscard]] Result<bool> is_in_effect() const { return ht::is_in_effect(files_, folder_, port_); }

  Result<void> forward() {
    const auto& last = files_.new_files.back();
    if (HT_TRY(exists(last.temporary))) {
      HT_TRY(check_new_files());
      HT_TRY(sync());
      for (const auto& old : files_.old_files) {
        if (!HT_TRY(exists(old.temporary))) HT_TRY(rename(old.name, old.temporary));
        // From here on the journal is in effect. A disk may keep later renames and lose this one.
        if (&old == &files_.old_files.front()) HT_TRY(sync());
      }
      HT_TRY(sync());
      for (const auto& file : std::span(files_.new_files).first(files_.new_files.size() - 1)) {
        HT_TRY(rename(file.temporary, file.name));
        ++placed_;
      }
      HT_TRY(sync());
      HT_TRY(rename(last.temporary, last.name));
    }
    is_in_place_ = true;
    return remove_old();
  }

  /// Whether only the removal of old files is left.
  [[nodiscard]] bool is_in_place() const noexcept { return is_in_place_; }

  /// Undoes `forward` in this process; the temporary names of new files stay.
  Result<void> back() {
    for (; placed_ > 0; --placed_) {
      const auto& file = files_.new_files[placed_ - 1];
      HT_TRY(rename(file.name, file.temporary));
    }
    // The file that the set is opened by was the first to go.
    for (auto old = files_.old_files.rbegin(); old != files_.old_files.rend(); ++old)
      HT_TRY(rename(old->temporary, old->name));
    return remove_journal();
  }

  /// Ends a replacement that never was in effect.
  Result<void> drop() {
    for (const auto& file : files_.new_files) HT_TRY(remove(file.temporary));
    return remove_journal();
  }

 private:
  [[nodiscard]] Result<bool> exists(const std::string& name) const {
    const auto there = port_.stat(folder_ / name);
    if (!there && !is_missing(there.error())) {
      return fail(io::system_error(ErrorCode::write_failed, "target_can_be_examined", "stat", folder_ / name,
                                   there.error()));
    }
    return there.has_value();
  }

  // A user may have removed temporary files: then the old ones stay.
  [[nodiscard]] Result<void> check_new_files() const {
    for (const auto& file : files_.new_files) {
      if (HT_TRY(exists(file.temporary))) continue;
      const auto old = std::ranges::find(files_.old_files, file.name, &SetJournal::File::name);
      const bool is_name_free = old == files_.old_files.end() || HT_TRY(exists(old->temporary));
      if (is_name_free && HT_TRY(exists(file.name))) continue;
      return fail(
          Error(ErrorCode::missing_shard, "journaled_files_are_there",
                format_text("the set was being replaced, and its new file '{}' is missing", file.temporary))
              .at_path(journal_.native())
              .with_hint("restore the file, or remove the journal and write the set again"));
    }
    return {};
  }

  static Error failed(std::string_view rule, std::string_view action, const Path& path,
                      std::error_code cause) {
    const bool is_full = cause == std::errc::no_space_on_device;
    return io::system_error(is_full ? ErrorCode::no_space : ErrorCode::write_failed, rule, action, path,
                            cause);
  }

  Result<void> rename(const std::string& from, const std::string& to) {
    const auto done = port_.rename(folder_ / from, folder_ / to, io::IfExists::replace);
    if (done || is_missing(done.error())) return {};
    return fail(failed("file_can_be_renamed", "rename into place", folder_ / to, done.error()));
  }

  Result<void> remove(const std::string& name) {
    // A second try, as the next writer would have to make it otherwise.
    return remove_file(folder_ / name, port_) ? Result<void>() : remove_file(folder_ / name, port_);
  }

  // The new set is in place: whatever fails, the other steps are taken, and the first failure is returned.
  Result<void> remove_old() {
    Result<void> first;
    const auto keep = [&](Result<void> step) {
      if (first) first = std::move(step);
    };
    for (const auto& old : files_.old_files) keep(remove(old.temporary));
    keep(remove_journal());
    return first;
  }

  Result<void> remove_journal() {
    auto synced = sync();
    HT_TRY(remove(journal_.filename().string()));
    HT_TRY(std::move(synced));
    return sync();
  }

  Result<void> sync() {
    while (true) {
      const auto done = port_.sync(handle_);
      if (!done && done.error() == std::errc::interrupted) continue;
      // A file system that cannot sync folders has nothing more to offer.
      if (done || done.error() == std::errc::invalid_argument) return {};
      return fail(failed("name_reaches_the_disk", "fsync its folder", journal_, done.error()));
    }
  }

  Path journal_;
  Path folder_ = journal_.parent_path();
  SetJournal files_;
  io::Port& port_;
  io::FileHandle handle_;
  std::size_t placed_ = 0;  // new files that this process gave their names
  bool is_in_place_ = false;
};

// Where a writer that was not killed holds its lock until it has written the journal.
Path lock_path(const Path& member) {
  return member.parent_path() /
         format_text("{}{}{}", io::temporary_prefix, set_name_of(member), io::temporary_suffix);
}

enum class Claim : std::uint8_t { taken, live, gone };

// Claims the journal, unless it was finished between opening and claiming it.
Claim claim_journal(const io::FileSource& file, io::Port& port) {
  const auto claimed = port.claim(file.handle());
  if (!claimed && claimed.error() == std::errc::resource_unavailable_try_again) return Claim::live;
  const auto there = port.stat(file.path());
  const bool is_same = there && there->device == file.stat().device && there->inode == file.stat().inode;
  return is_same ? Claim::taken : Claim::gone;
}

}  // namespace

Result<void> remove_file(const Path& path, io::Port& port) {
  const auto done = port.unlink(path);
  if (done || is_missing(done.error())) return {};
  return fail(Error(ErrorCode::write_failed, "old_files_can_be_removed", "cannot remove the file")
                  .at_path(path.native())
                  .because(done.error())
                  .with_hint("remove the file and try again"));
}

Result<void> finish_set(const Path& member, io::Port& port) {
  return without_bad_alloc([&]() -> Result<void> {
    const auto path = journal_path(member);
    while (true) {
      // An Error that is made without memory has no cause, so the file is looked for first.
      if (const auto there = port.stat(path); !there && is_missing(there.error())) return {};
      auto file = io::FileSource::open(path, port);
      if (!file) {
        if (is_missing(file.error().cause())) return {};
        return fail(std::move(file).error());
      }
      const auto claim = claim_journal(**file, port);
      if (claim == Claim::live) return fail(in_use(member));
      if (claim == Claim::gone) continue;
      Replacement replacement(path, HT_TRY(read_journal(**file, set_name_of(member))), port);
      HT_TRY(replacement.open());
      return HT_TRY(replacement.is_in_effect()) ? replacement.forward() : replacement.drop();
    }
  });
}

Result<SetLock> SetLock::acquire(const Path& member, io::Port& port) {
  const auto journal = journal_path(member);
  constexpr int tries = 8;
  for (int i = 0; i < tries; ++i) {
    HT_TRY(finish_set(member, port));
    auto file = HT_TRY(io::AtomicFile::create_locked(lock_path(member), journal, port));
    if (!file) break;
    // Another writer may have committed between the two calls.
    if (!port.stat(journal)) return SetLock(*std::move(file));
  }
  return fail(in_use(member));
}

Result<void> SetLock::replace(std::span<const Path> old_files,
                              std::span<io::AtomicFile* const> new_files) && {
  auto& port = journal_.port();
  SetJournal files;
  for (const auto& path : old_files)
    files.old_files.push_back({path.filename().string(), io::new_temporary_name(path).filename().string()});
  for (auto* const file : new_files) {
    HT_TRY(file->give_temporary_name());
    files.new_files.push_back({file->target().filename().string(), file->temporary().filename().string()});
  }
  HT_TRY(journal_.write(0, encode_journal(files)));
  HT_TRY(journal_.sync());
  Replacement replacement(journal_.target(), std::move(files), port);
  HT_TRY(replacement.open());
  // The journal must not reach the disk before the names in it.
  HT_TRY(journal_.sync_folder());
  HT_TRY(journal_.put_in_place());
  auto done = replacement.forward();
  // Without its old state back, the set is what the journal says: its temporary files stay.
  const bool is_undone = !done && !replacement.is_in_place() && replacement.back();
  if (!is_undone) {
    for (auto* const file : new_files) file->release();
  }
  HT_TRY(std::move(done));
  for (auto* const file : new_files) HT_TRY(std::move(*file).close());
  return std::move(journal_).close();
}

}  // namespace ht::inline v1
