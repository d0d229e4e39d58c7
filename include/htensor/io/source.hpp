// Sources of bytes: a local file, memory, or a class of the caller.
//
//   class Blob final : public ht::io::Source {          // a source that the library does not know
//     std::uint64_t size() const noexcept override { return size_; }
//     ht::Result<void> read(std::uint64_t offset, ht::MutableBytes into) const override { … }
//     …
//   };
//   const auto model = HT_TRY(ht::Model::from_source(std::make_shared<Blob>(…)));
//
// A source knows neither formats nor tensors. It is immutable: `size` and `identity` describe the state when
// the source was opened. Models, tensors and storages share ownership of their sources. Many threads may call
// all functions at once, so the functions of a caller's class must be thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace ht::inline v1::io {

/// The interface through which the library makes system calls on files and mappings. The member `port` of
/// options is for tests of the library, which substitute their own Port.
class Port;

/// Bytes in memory and the object that keeps them valid.
struct Memory {
  Bytes bytes{};
  std::shared_ptr<const void> owner{};
};

class Source {
 public:
  /// The kind of storage that determines how long a read waits for its first byte.
  enum class Latency : std::uint8_t {
    memory,  ///< memory, or a file system in memory
    near,    ///< a disk of this machine
    far,     ///< a network, another process, or unknown
  };

  /// The facts about a source from which Strategy::Kind::automatic chooses a strategy (io/strategy.hpp).
  struct Capabilities {
    bool mappable = false;     ///< bytes can be used in place: a file, or `memory` returns them
    bool direct = false;       ///< reads can bypass the page cache
    bool cache_query = false;  ///< `cached` may return true
    Latency latency = Latency::far;
  };

  /// The permissions, the owner and the group of a file.
  struct Rights {
    std::uint32_t permissions = 0;
    std::uint32_t owner = 0;
    std::uint32_t group = 0;

    friend bool operator==(const Rights&, const Rights&) = default;
  };

  /// The state of a file when it was opened. Equal values mean the same unchanged file; a change of rights, a
  /// rename or a new link also changes the value. For memory: address and size.
  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t object = 0;
    std::uint64_t bytes = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    std::uint64_t links = 1;
    Rights rights{};

    friend bool operator==(const Identity&, const Identity&) = default;
  };

  /// A part of a file, and how many of its bytes are in the page cache.
  struct CacheQuery {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t cached_bytes = 0;
  };

  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  /// The path that names the source in errors; empty for memory.
  [[nodiscard]] virtual const std::filesystem::path& path() const noexcept = 0;
  /// The size in bytes.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  [[nodiscard]] virtual Identity identity() const noexcept = 0;
  [[nodiscard]] virtual Capabilities capabilities() const = 0;

  /// Fills `into` from `offset` on. `truncated` if the source ends before `into` is full, else `read_failed`.
  [[nodiscard]] virtual Result<void> read(std::uint64_t offset, MutableBytes into) const = 0;
  /// `changed_underfoot` if the bytes may have changed since the source was opened. By default always
  /// succeeds.
  [[nodiscard]] virtual Result<void> check_unchanged() const;
  /// Fills in how many bytes of each part are in the page cache. Returns false if that is unknown, as by
  /// default.
  [[nodiscard]] virtual Result<bool> cached(std::span<CacheQuery> parts) const;
  /// All bytes if the source is memory; else nullopt, as by default.
  [[nodiscard]] virtual std::optional<Memory> memory() const;
};

/// The sources of a model by file index; null for a missing file.
using Sources = std::vector<std::shared_ptr<const Source>>;

/// A range of one of several sources; `file` is its index.
struct FileRange {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const FileRange&, const FileRange&) = default;
};

/// Opens a regular file for reading. Destroying the last owner of the source closes its descriptor.
/// `open_failed`, or `not_regular_file` for a folder, a pipe, a socket, a device.
[[nodiscard]] Result<std::shared_ptr<const Source>> open_file(const std::filesystem::path& path);

}  // namespace ht::inline v1::io
