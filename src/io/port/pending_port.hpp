// A Port that shows folders as they will be after a commit.
//
// Files that are written but not yet renamed are found under their final names; files that the commit removes
// are not found. A caller can thus read the new files before the old ones are changed.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <span>

#include "io/atomic_file.hpp"
#include "io/port/port.hpp"

namespace ht::inline v1::io {

/// The files have to outlive this object and must not be committed while it exists. For the target of an
/// AtomicFile, `open` returns the file's own handle, and `close` leaves this handle open. Paths are compared
/// in normal form. `list` returns the names on disk, without the pending changes.
class PendingPort final : public Port {
 public:
  PendingPort(std::span<const AtomicFile> files, std::span<const std::filesystem::path> removed, Port& port)
      : port_(port) {
    for (const auto& file : files) {
      by_path_.emplace(file.target().lexically_normal(), file.handle());
      handles_.insert(file.handle().value);
    }
    const auto gone = std::make_error_code(std::errc::no_such_file_or_directory);
    for (const auto& path : removed) by_path_.emplace(path.lexically_normal(), tl::unexpected(gone));
  }

  IoResult<FileHandle> open(const std::filesystem::path& path) override {
    const auto found = by_path_.find(path.lexically_normal());
    return found != by_path_.end() ? found->second : port_.open(path);
  }
  IoResult<void> close(FileHandle file) override {
    return handles_.contains(file.value) ? IoResult<void>() : port_.close(file);
  }
  IoResult<FileStat> stat(const std::filesystem::path& path) override {
    const auto found = by_path_.find(path.lexically_normal());
    if (found == by_path_.end()) return port_.stat(path);
    return found->second.and_then([&](FileHandle file) { return port_.stat(file); });
  }

  // All other calls are forwarded.
  IoResult<FileHandle> duplicate(FileHandle file) override { return port_.duplicate(file); }
  IoResult<FileStat> stat(FileHandle file) override { return port_.stat(file); }
  IoResult<std::filesystem::path> read_link(const std::filesystem::path& path) override {
    return port_.read_link(path);
  }
  IoResult<std::vector<std::string>> list(const std::filesystem::path& path) override {
    return port_.list(path);
  }
  IoResult<std::uint64_t> read_at(FileHandle file, std::uint64_t offset, MutableBytes into) override {
    return port_.read_at(file, offset, into);
  }
  IoResult<Region> map(FileHandle file, std::uint64_t offset, std::uint64_t bytes) override {
    return port_.map(file, offset, bytes);
  }
  IoResult<Region> map_private(FileHandle file, std::uint64_t offset, std::uint64_t bytes) override {
    return port_.map_private(file, offset, bytes);
  }
  IoResult<void> unmap(Region region) override { return port_.unmap(region); }
  IoResult<void> map_over(Region region, FileHandle file, std::uint64_t offset) override {
    return port_.map_over(region, file, offset);
  }
  IoResult<void> advise(Region region, Strategy::Advice advice) override {
    return port_.advise(region, advice);
  }
  [[nodiscard]] std::uint64_t page_bytes() const noexcept override { return port_.page_bytes(); }
  IoResult<FileHandle> reopen_direct(FileHandle file, Access access) override {
    return port_.reopen_direct(file, access);
  }
  IoResult<DirectAlignment> direct_alignment(FileHandle file) override {
    return port_.direct_alignment(file);
  }
  IoResult<std::unique_ptr<ReadQueue>> read_queue(std::uint32_t depth) override {
    return port_.read_queue(depth);
  }
  IoResult<void> cached(FileHandle file, std::span<Source::CacheQuery> parts) override {
    return port_.cached(file, parts);
  }
  IoResult<void> drop_cached(FileHandle file, std::uint64_t offset, std::uint64_t bytes) override {
    return port_.drop_cached(file, offset, bytes);
  }
  IoResult<FileSystem> file_system(FileHandle file) override { return port_.file_system(file); }
  IoResult<std::uint64_t> available_memory() override { return port_.available_memory(); }
  IoResult<std::uint64_t> peak_memory() override { return port_.peak_memory(); }
  IoResult<std::uint64_t> next_data(FileHandle file, std::uint64_t offset) override {
    return port_.next_data(file, offset);
  }
  IoResult<std::uint64_t> next_hole(FileHandle file, std::uint64_t offset) override {
    return port_.next_hole(file, offset);
  }
  IoResult<FileHandle> create(const std::filesystem::path& path,
                              std::optional<Source::Rights> rights) override {
    return port_.create(path, rights);
  }
  IoResult<FileHandle> create_nameless(const std::filesystem::path& folder,
                                       std::optional<Source::Rights> rights) override {
    return port_.create_nameless(folder, rights);
  }
  IoResult<void> name(FileHandle file, const std::filesystem::path& path) override {
    return port_.name(file, path);
  }
  IoResult<void> claim(FileHandle file) override { return port_.claim(file); }
  IoResult<std::uint64_t> write_at(FileHandle file, std::uint64_t offset, Bytes from) override {
    return port_.write_at(file, offset, from);
  }
  IoResult<void> clone_range(const CopyRequest& request) override { return port_.clone_range(request); }
  IoResult<std::uint64_t> copy_range(const CopyRequest& request) override {
    return port_.copy_range(request);
  }
  IoResult<void> allocate(FileHandle file, std::uint64_t bytes) override {
    return port_.allocate(file, bytes);
  }
  IoResult<void> resize(FileHandle file, std::uint64_t bytes) override { return port_.resize(file, bytes); }
  IoResult<void> sync(FileHandle file) override { return port_.sync(file); }
  IoResult<void> rename(const std::filesystem::path& from, const std::filesystem::path& to,
                        IfExists if_exists) override {
    return port_.rename(from, to, if_exists);
  }
  IoResult<void> unlink(const std::filesystem::path& path) override { return port_.unlink(path); }

 private:
  Port& port_;
  // The file to open, or an error for a removed file.
  std::map<std::filesystem::path, IoResult<FileHandle>> by_path_;
  std::set<int> handles_;
};

}  // namespace ht::inline v1::io
