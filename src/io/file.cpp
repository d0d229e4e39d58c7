#include "io/file.hpp"

#include "base/format_text.hpp"
#include "io/system_error.hpp"

namespace ht::inline v1::io {
namespace {

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::regular: return "a regular file";
    case FileKind::folder: return "a folder";
    case FileKind::pipe: return "a pipe";
    case FileKind::socket: return "a socket";
    case FileKind::device: return "a device";
    case FileKind::other: break;
  }
  return "a special file";
}

Error not_opened(const std::filesystem::path& path, Port& port, std::error_code cause) {
  Error error = system_error(ErrorCode::open_failed, "file_can_be_opened", "open", path, cause);
  if (cause != std::errc::no_such_file_or_directory) return error;
  // "Not found" of a link that is there misleads: it is what the link names that is gone.
  const auto target = port.read_link(path);
  if (!target) return error;
  return Error(ErrorCode::open_failed, "link_leads_somewhere",
               format_text("symbolic link points to '{}', which does not exist", target->native()))
      .at_path(path.native())
      .because(cause)
      .with_hint("download the target again, or fix the link");
}

Error not_regular(const std::filesystem::path& path, FileKind kind) {
  return Error(ErrorCode::not_regular_file, "file_is_regular",
               format_text("path is {}, not a regular file", name_of(kind)))
      .at_path(path.native())
      .with_hint(kind == FileKind::folder ? "pass a file in the folder"
                                          : "copy the contents to a regular file first");
}

}  // namespace

Result<std::unique_ptr<File>> File::open_regular(const std::filesystem::path& path, Port& port) {
  // All memory is had before the descriptor is: nothing can fail between opening and owning it.
  std::unique_ptr<File> file(new File(path, port));
  const auto handle = port.open(path);
  if (!handle) {
    // A socket can only be connected to; what it is helps more than what opening it said.
    const bool unopenable = handle.error() == std::errc::no_such_device_or_address;
    if (const auto there = port.stat(path); unopenable && there) return fail(not_regular(path, there->kind));
    return fail(not_opened(path, port, handle.error()));
  }
  file->handle_ = *handle;
  const auto stat = port.stat(*handle);
  if (!stat) {
    return fail(system_error(ErrorCode::open_failed, "file_can_be_examined", "stat", path, stat.error()));
  }
  if (stat->kind != FileKind::regular) return fail(not_regular(path, stat->kind));
  file->stat_ = *stat;
  return file;
}

File::~File() {
  // Nothing was written through it, so there is nothing that a failure could lose.
  if (handle_.value >= 0) static_cast<void>(port_.close(handle_));
}

// A write whose mtime was set back still changes ctime. So do links, rights and a rename, which leave the
// contents alone; each of them shows in what it changed.
bool File::may_have_other_contents(const FileStat& now) const {
  if (now.bytes != stat_.bytes || now.modified_ns != stat_.modified_ns) return true;
  if (now.changed_ns == stat_.changed_ns) return false;
  if (now.links != stat_.links || now.rights != stat_.rights) return false;
  const auto named = port_.stat(path_);
  const bool is_renamed = !named || named->device != stat_.device || named->inode != stat_.inode;
  return !is_renamed;
}

Result<void> File::check_unchanged() const {
  const auto now = port_.stat(handle_);
  if (!now) {
    return fail(system_error(ErrorCode::read_failed, "file_can_be_examined", "stat", path_, now.error()));
  }
  if (!may_have_other_contents(*now)) return {};
  return fail(
      Error(ErrorCode::changed_underfoot, "file_is_as_it_was",
            now->bytes == stat_.bytes
                ? std::string("file was modified while in use")
                : format_text("file had {} bytes when it was opened but has {} now", stat_.bytes, now->bytes))
          .at_path(path_.native())
          .with_hint("retry when no other program writes to the file"));
}

Result<void> File::read(std::uint64_t offset, MutableBytes into) const {
  while (!into.empty()) {
    const auto count = port_.read_at(handle_, offset, into);
    if (!count) {
      if (count.error() == std::errc::interrupted) continue;
      return fail(system_error(ErrorCode::read_failed, "bytes_can_be_read", "read", path_, count.error())
                      .at_offset(offset));
    }
    if (*count == 0) {
      return fail(Error(ErrorCode::truncated, "file_is_as_long_as_it_was",
                        format_text("file ends at byte {} but {} more bytes are needed", offset, into.size()))
                      .at_path(path_.native())
                      .at_offset(offset)
                      .with_hint("retry when no other program writes to the file"));
    }
    offset += *count;
    into = into.subspan(static_cast<std::size_t>(*count));
  }
  return {};
}

}  // namespace ht::inline v1::io
