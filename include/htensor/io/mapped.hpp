// The `mapped` strategy: a file's pages seen in place, read when they are touched.
//
// What a mapping means, honestly: pages come from the disk at the first touch, so reading can be slow
// or fail then; touching pages of a file that somebody has truncated, or that the disk cannot read, gives
// zeros, and an Error under `ht::guarded`; without the guard it ends the process. Writes by others may show
// through. Replace files by rename, as `ht::write` does, and none of this happens.
//
// The order of steps is in the types: `Opened` gives itself up to become `Mapped`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/port.hpp>
#include <memory>
#include <string>

namespace ht::inline v1::io {

class File;
class Mapped;

struct MapOptions {
  /// Whether pages that cannot be read are an Error under `ht::guarded` and zeros elsewhere. Else they end
  /// the process, and no signal handler is put in place for this mapping.
  bool guard = true;
  /// What the byte of the file at an offset is a part of, for the Error; may be empty. Called from any thread
  /// as long as the mapping is there.
  std::function<std::string(std::uint64_t offset)> tensor_at{};
};

/// A regular file, open for reading. Closed when it goes, unless a `Mapped` took it over.
class Opened {
 public:
  /// `open_failed`, or `not_regular_file` for a folder, a pipe, a socket, a device.
  [[nodiscard]] static Result<Opened> open(const std::filesystem::path& path, Port& port = system_port());

  Opened(Opened&&) noexcept;
  Opened& operator=(Opened&&) noexcept;
  ~Opened();

  /// As it was when the file was opened.
  [[nodiscard]] const FileStat& stat() const noexcept;
  [[nodiscard]] const std::filesystem::path& path() const noexcept;

  // Once given up by a move or a `map`, this answers `bad_state`.

  /// Fills `into` from `offset` on. `truncated` where the file ends before, `read_failed`.
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableBytes into) const;

  /// The whole file, which may be empty. `map_failed`, `unsupported_platform`.
  [[nodiscard]] Result<Mapped> map(MapOptions options = {}) &&;
  /// Any part of it, at any offset. `out_of_bounds` where it is not all in the file.
  [[nodiscard]] Result<Mapped> map(std::uint64_t offset, std::uint64_t bytes, MapOptions options = {}) &&;

 private:
  friend const File& file_of(const Opened& opened) noexcept;
  explicit Opened(std::unique_ptr<File> file) noexcept;
  std::unique_ptr<File> file_;
};

/// A mapped part of a file. Copies share one mapping and one descriptor, which go with the last. There is
/// no move: what was moved from would be a trap.
class Mapped {
 public:
  Mapped(const Mapped&) = default;
  Mapped& operator=(const Mapped&) = default;
  ~Mapped() = default;

  [[nodiscard]] const std::filesystem::path& path() const noexcept;
  [[nodiscard]] const FileStat& stat() const noexcept;
  /// Where the mapped part begins in its file.
  [[nodiscard]] std::uint64_t offset() const noexcept;
  /// All of the mapped part; alive as long as some copy of this or its `owner` is.
  [[nodiscard]] Bytes bytes() const noexcept;
  /// A part by its offset in the file. `out_of_bounds` where it is not all mapped.
  [[nodiscard]] Result<Bytes> range(std::uint64_t file_offset, std::uint64_t bytes) const;
  /// Whether pages that cannot be read are an Error under `ht::guarded` (see MapOptions).
  [[nodiscard]] bool is_guarded() const noexcept;
  /// `changed_underfoot` if the file was written to since it was opened, even if its mtime was set back: call
  /// it before and after a long walk. A link, other rights, a rename, or another file renamed over this one
  /// do not count; the mapping still is of the old file.
  [[nodiscard]] Result<void> check_unchanged() const;

  // The parts are named by their offset in the file and may begin and end anywhere: what is dropped is the
  // whole pages inside, so that neighbours keep theirs; what is fetched is every page that is touched.
  // `out_of_bounds` where it is not all mapped.

  /// Makes the system act on what is going to happen. `unsupported_strategy` where it cannot, `read_failed`
  /// where pages were to be fetched and could not be.
  [[nodiscard]] Result<void> advise(std::uint64_t offset, std::uint64_t bytes, Advice advice) const;
  /// Keeps the pages in memory until the mapping goes. `out_of_memory` at the user's limit.
  [[nodiscard]] Result<void> lock(std::uint64_t offset, std::uint64_t bytes) const;
  /// The bytes of the part that are in the page cache; nullopt where the kernel does not report it to this
  /// user (see `Port::cached`).
  [[nodiscard]] Result<std::optional<std::uint64_t>> cached(std::uint64_t offset, std::uint64_t bytes) const;
  /// Takes the part out of this process and out of the page cache, unless another process has it mapped.
  [[nodiscard]] Result<void> forget(std::uint64_t offset, std::uint64_t bytes) const;

  /// Keeps the mapping in place while somebody holds it.
  [[nodiscard]] std::shared_ptr<const void> owner() const noexcept;

  /// Gives the mapping back now, where the destructor could not tell of a failure. `in_use` while
  /// others hold it; after `unmap_failed` it still stands and can be tried again. Afterwards empty.
  [[nodiscard]] Result<void> unmap();
  /// Maps anew what was given back, unless the file has changed since it was opened.
  [[nodiscard]] Result<void> map_again();

 private:
  friend class Opened;
  friend const File& file_of(const Mapped& mapped) noexcept;
  struct Mapping;
  explicit Mapped(std::shared_ptr<Mapping> mapping) noexcept;
  [[nodiscard]] Result<Region> pages_of(std::uint64_t offset, std::uint64_t bytes, bool inward) const;
  std::shared_ptr<Mapping> mapping_;
};

static_assert(sizeof(Opened) == sizeof(void*) && sizeof(Mapped) == 2 * sizeof(void*));

}  // namespace ht::inline v1::io
