// The library's own sources: a regular file, and bytes in memory.
#pragma once

#include <htensor/io/source.hpp>
#include <utility>

#include "io/port/port.hpp"

namespace ht::inline v1::io {

/// Whether the contents of a file may have changed between two of its identities: size or mtime differ, or
/// ctime differs and no change of its links, rights or name explains that.
[[nodiscard]] bool may_have_changed(const Source::Identity& before, const Source::Identity& now,
                                    bool is_renamed) noexcept;

/// A regular file, open for reading. Destroying the last owner closes the descriptor.
class FileSource final : public Source {
 public:
  /// `open_failed`, or `not_regular_file` for a folder, a pipe, a socket, a device.
  [[nodiscard]] static Result<std::shared_ptr<const FileSource>> open(const std::filesystem::path& path,
                                                                      Port& port = system_port());
  /// Duplicates the descriptor, so that the caller may close its own. Errors call the file `fd N`.
  [[nodiscard]] static Result<std::shared_ptr<const FileSource>> from_fd(int fd, Port& port = system_port());
  ~FileSource() override;

  /// Whether `path` is the path of the file; false for a source opened by a descriptor.
  [[nodiscard]] bool has_path() const noexcept { return has_path_; }
  [[nodiscard]] Port& port() const noexcept { return port_; }
  [[nodiscard]] FileHandle handle() const noexcept { return handle_; }
  /// The state of the file at `open`.
  [[nodiscard]] const FileStat& stat() const noexcept { return stat_; }

  [[nodiscard]] const std::filesystem::path& path() const noexcept override { return path_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return stat_.bytes; }
  [[nodiscard]] Identity identity() const noexcept override;
  [[nodiscard]] Capabilities capabilities() const override;
  /// Retries short and interrupted reads.
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableBytes into) const override;
  [[nodiscard]] Result<void> check_unchanged() const override;
  [[nodiscard]] Result<bool> cached(std::span<CacheQuery> parts) const override;

 private:
  FileSource(std::filesystem::path path, bool has_path, Port& port)
      : port_(port), path_(std::move(path)), has_path_(has_path) {}
  [[nodiscard]] static Result<std::shared_ptr<const FileSource>> adopt(std::shared_ptr<FileSource> file);

  Port& port_;
  FileHandle handle_;  // negative until it is open
  std::filesystem::path path_;
  bool has_path_;
  FileStat stat_;
};

/// Bytes of the caller, which have to stay unchanged.
class MemorySource final : public Source {
 public:
  /// `owner` keeps the bytes alive; it may be empty if the caller keeps them alive.
  MemorySource(Bytes bytes, std::shared_ptr<const void> owner) : memory_{bytes, std::move(owner)} {}

  [[nodiscard]] const std::filesystem::path& path() const noexcept override { return path_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return memory_.bytes.size(); }
  [[nodiscard]] Identity identity() const noexcept override;
  [[nodiscard]] Capabilities capabilities() const override;
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableBytes into) const override;
  [[nodiscard]] std::optional<Memory> memory() const override { return memory_; }

 private:
  Memory memory_;
  std::filesystem::path path_;
};

}  // namespace ht::inline v1::io
