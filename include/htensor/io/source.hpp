// Sources of bytes: a local file, memory, or a class of the caller.
//
//   class Blob final : public ht::io::Source {          // a source that the library does not know
//     std::uint64_t size() const noexcept override { return size_; }
//     ht::Result<void> read(std::uint64_t offset, ht::MutableBytes into) const override { … }
//     …
//   };
//   const auto model = HT_TRY(ht::Model::from_source(std::make_shared<Blob>(…)));
//
// A source knows neither formats nor tensors. It is immutable: `size` and `identity` describe the moment at
// which the source was opened. All functions are thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ht::inline v1::io {

/// Bytes in memory and the object that keeps them there.
struct Memory {
  Bytes bytes{};
  std::shared_ptr<const void> owner{};
};

/// How long the first byte of a read takes.
enum class Latency : std::uint8_t {
  memory,  ///< a copy: memory, or a file system in memory
  near,    ///< a disk of this machine
  far,     ///< a network, another process, or unknown
};

/// The facts from which `automatic` chooses a strategy.
struct Capabilities {
  bool mappable = false;     ///< bytes can be used in place: a file, or `memory` returns them
  bool direct = false;       ///< reads can bypass the page cache
  bool cache_query = false;  ///< `cached` may return true
  Latency latency = Latency::far;
};

/// Equal for two sources of the same unchanged file, or of the same memory, which the caller must not change.
struct SourceIdentity {
  std::uint64_t device = 0;
  std::uint64_t object = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  std::uint64_t links = 1;
  FileRights rights{};

  friend bool operator==(const SourceIdentity&, const SourceIdentity&) = default;
};

/// Whether the contents of the same object may have changed: size or mtime differ, or ctime differs and no
/// new link, change of rights or rename explains it.
[[nodiscard]] bool may_have_other_contents(const SourceIdentity& before, const SourceIdentity& now,
                                           bool is_renamed) noexcept;

class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  /// Names the source in errors; empty for memory.
  [[nodiscard]] virtual const std::filesystem::path& path() const noexcept = 0;
  /// In bytes.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  [[nodiscard]] virtual SourceIdentity identity() const noexcept = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  /// Fills `into` from `offset` on. `truncated` if the source ends before `into` is full, `read_failed`.
  [[nodiscard]] virtual Result<void> read(std::uint64_t offset, MutableBytes into) const = 0;
  /// `changed_underfoot` if the bytes may have changed since the source was opened.
  [[nodiscard]] virtual Result<void> check_unchanged() const { return {}; }
  /// Fills in how many bytes of each part are in the page cache; false if that is unknown.
  [[nodiscard]] virtual Result<bool> cached(std::span<CacheQuery> /*parts*/) const { return false; }
  /// All bytes if the source is memory; else nullopt.
  [[nodiscard]] virtual std::optional<Memory> memory() const { return std::nullopt; }
};

/// The sources of a model by file index; null for a missing file.
using Sources = std::vector<std::shared_ptr<const Source>>;

/// A part of one of several sources.
struct FileRange {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const FileRange&, const FileRange&) = default;
};

/// A regular file, open for reading; its descriptor is closed with the last owner.
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
  [[nodiscard]] SourceIdentity identity() const noexcept override;
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
  [[nodiscard]] SourceIdentity identity() const noexcept override;
  [[nodiscard]] Capabilities capabilities() const override;
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableBytes into) const override;
  [[nodiscard]] std::optional<Memory> memory() const override { return memory_; }

 private:
  Memory memory_;
  std::filesystem::path path_;
};

}  // namespace ht::inline v1::io
