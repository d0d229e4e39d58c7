
#include <algorithm>
#include <array>
#include <htensor/base/bytes.hpp>

#include "base/format_text.hpp"
#include "io/file_source.hpp"
#include "io/port/system_error.hpp"

namespace ht::inline v1::io {
namespace {

// In the order of FileKind.
constexpr std::array<std::string_view, 6> kind_names{"a regular file", "a folder", "a pipe",
                                                     "a socket",       "a device", "a special file"};

Error not_opened(const std::filesystem::path& path, Port& port, std::error_code cause) {
  Error error = system_error(ErrorCode::open_failed, "file_can_be_opened", "open", path, cause);
  if (cause != std::errc::no_such_file_or_directory) return error;
  // If the path is a link to a missing target, "no such file" would mislead: the link exists.
  const auto target = port.read_link(path);
  if (!target) return error;
  return Error(ErrorCode::open_failed, "link_target_exists",
               format_text("symbolic link points to '{}', which does not exist", target->native()))
      .at_path(path.native())
      .with_cause(cause)
      .with_hint("download the target again, or fix the link");
}

Source::Identity identity_of(const FileStat& stat) noexcept {
  return {.device = stat.device,
          .object = stat.inode,
          .bytes = stat.bytes,
          .modified_ns = stat.modified_ns,
          .changed_ns = stat.changed_ns,
          .links = stat.links,
          .rights = stat.rights};
}

Error not_regular(const std::filesystem::path& path, FileKind kind) {
  return Error(ErrorCode::not_regular_file, "file_is_regular",
               format_text("path is {}, not a regular file", kind_names[static_cast<std::size_t>(kind)]))
      .at_path(path.native())
      .with_hint(kind == FileKind::folder ? "pass a file in the folder"
                                          : "copy the contents to a regular file first");
}

}  // namespace

Result<std::shared_ptr<const Source>> open_file(const std::filesystem::path& path) {
  return FileSource::open(path);
}

Result<std::shared_ptr<const FileSource>> FileSource::open(const std::filesystem::path& path, Port& port) {
  return without_bad_alloc([&]() -> Result<std::shared_ptr<const FileSource>> {
    // Allocated before the descriptor is opened: nothing can fail between opening and owning it.
    std::shared_ptr<FileSource> file(new FileSource(path, true, port));
    const auto handle = port.open(path);
    if (!handle) {
      // A socket cannot be opened; report its kind instead of the error of `open`.
      const bool cannot_be_opened = handle.error() == std::errc::no_such_device_or_address;
      if (const auto found = port.stat(path); cannot_be_opened && found)
        return fail(not_regular(path, found->kind));
      return fail(not_opened(path, port, handle.error()));
    }
    file->handle_ = *handle;
    return adopt(std::move(file));
  });
}

Result<std::shared_ptr<const FileSource>> FileSource::from_fd(int fd, Port& port) {
  return without_bad_alloc([&]() -> Result<std::shared_ptr<const FileSource>> {
    std::shared_ptr<FileSource> file(new FileSource(format_text("fd {}", fd), false, port));
    const auto handle = port.duplicate(FileHandle{fd});
    if (!handle) {
      return fail(system_error(ErrorCode::open_failed, "descriptor_can_be_duplicated",
                               "duplicate the descriptor", file->path_, handle.error()));
    }
    file->handle_ = *handle;
    return adopt(std::move(file));
  });
}

Result<std::shared_ptr<const FileSource>> FileSource::adopt(std::shared_ptr<FileSource> file) {
  const auto stat = file->port_.stat(file->handle_);
  if (!stat) {
    return fail(
        system_error(ErrorCode::open_failed, "file_can_be_examined", "stat", file->path_, stat.error()));
  }
  if (stat->kind != FileKind::regular) return fail(not_regular(file->path_, stat->kind));
  file->stat_ = *stat;
  return file;
}

FileSource::~FileSource() {
  // The descriptor is read-only, so a failed close loses no data.
  if (handle_.value >= 0) static_cast<void>(port_.close(handle_));
}

Source::Identity FileSource::identity() const noexcept { return identity_of(stat_); }

Source::Capabilities FileSource::capabilities() const {
  const auto system = port_.file_system(handle_).value_or(FileSystem::unknown);
  const bool in_memory = system == FileSystem::memory;
  return {.mappable = true,
          .direct = !in_memory,
          .cache_query = true,
          .latency = in_memory                     ? Source::Latency::memory
                     : system == FileSystem::local ? Source::Latency::near
                                                   : Source::Latency::far};
}

Result<bool> FileSource::cached(std::span<Source::CacheQuery> parts) const {
  for (const auto& [offset, bytes, unused] : parts) {
    if (checked::range_fits(offset, bytes, stat_.bytes)) continue;
    return fail(
        Error(ErrorCode::out_of_bounds, "queried_range_is_in_the_file",
              format_text("{} bytes at byte {} are outside the file of {} bytes", bytes, offset, stat_.bytes))
            .at_path(path_.native())
            .at_offset(offset)
            .with_hint("query only ranges below size()"));
  }
  const auto found = port_.cached(handle_, parts);
  if (found) return true;
  if (found.error() == std::errc::operation_not_permitted) return false;
  return fail(system_error(ErrorCode::unsupported_strategy, "page_cache_can_be_queried",
                           "query the page cache", path_, found.error()));
}

// A write changes ctime even if mtime is restored afterwards. A change of links or rights also changes ctime
// but not the contents; the fields `links` and `rights` show such a change.
bool may_have_changed(const Source::Identity& before, const Source::Identity& now, bool is_renamed) noexcept {
  if (now.bytes != before.bytes || now.modified_ns != before.modified_ns) return true;
  if (now.changed_ns == before.changed_ns) return false;
  return now.links == before.links && now.rights == before.rights && !is_renamed;
}

Result<void> FileSource::check_unchanged() const {
  const auto now = port_.stat(handle_);
  if (!now) {
    return fail(system_error(ErrorCode::read_failed, "file_can_be_examined", "stat", path_, now.error()));
  }
  const auto before = identity();
  const auto after = identity_of(*now);
  if (!may_have_changed(before, after, true)) {
    if (!may_have_changed(before, after, false)) return {};
    // Only ctime differs. A rename explains that if the path does not name this file now. The name of a
    // descriptor's file is unknown, so its rename counts as a change.
    if (has_path_) {
      const auto named = port_.stat(path_);
      if (!named || named->device != stat_.device || named->inode != stat_.inode) return {};
    }
  }
  return fail(
      Error(ErrorCode::changed_underfoot, "file_is_unchanged",
            now->bytes == stat_.bytes
                ? std::string("file was modified while in use")
                : format_text("file had {} bytes when it was opened but has {} now", stat_.bytes, now->bytes))
          .at_path(path_.native())
          .with_hint("retry when no other program writes to the file"));
}

Result<void> FileSource::read(std::uint64_t offset, MutableBytes into) const {
  while (!into.empty()) {
    const auto count = port_.read_at(handle_, offset, into);
    if (!count) {
      if (count.error() == std::errc::interrupted) continue;
      return fail(system_error(ErrorCode::read_failed, "bytes_can_be_read", "read", path_, count.error())
                      .at_offset(offset));
    }
    if (*count == 0) {
      return fail(Error(ErrorCode::truncated, "file_size_is_unchanged",
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

Source::Identity MemorySource::identity() const noexcept {
  return {.object = reinterpret_cast<std::uintptr_t>(memory_.bytes.data()), .bytes = memory_.bytes.size()};
}

Source::Capabilities MemorySource::capabilities() const {
  return {.mappable = true, .latency = Source::Latency::memory};
}

Result<void> MemorySource::read(std::uint64_t offset, MutableBytes into) const {
  const auto from = part(memory_.bytes, offset, into.size());
  if (!from) {
    return fail(Error(ErrorCode::truncated, "read_is_within_the_memory",
                      format_text("{} bytes at byte {} are outside the memory of {} bytes", into.size(),
                                  offset, memory_.bytes.size()))
                    .at_offset(offset)
                    .with_hint("read only ranges below size()"));
  }
  std::ranges::copy(*from, into.begin());
  return {};
}

Result<void> Source::check_unchanged() const { return {}; }
Result<bool> Source::cached(std::span<CacheQuery> /*parts*/) const { return false; }
std::optional<Memory> Source::memory() const { return std::nullopt; }

}  // namespace ht::inline v1::io
