// One mapping of a part of a file, and what can be done with its pages. Only the `mapped` strategy uses it.
//
// Pages come from the disk at the first touch, so reading can be slow or fail then (docs/io.md). Writes by
// other programs may show through.
#pragma once

#include <cstdint>
#include <functional>
#include <htensor/base/bytes.hpp>
#include <htensor/base/fault.hpp>
#include <htensor/base/result.hpp>
#include <htensor/io/source.hpp>
#include <memory>
#include <optional>
#include <string>

namespace ht::inline v1::io {

struct MapOptions {
  /// What a page that cannot be read becomes.
  FaultPolicy faults = FaultPolicy::guarded;
  /// The name of the tensor that has the byte at an offset of the file, for errors; may return an empty
  /// string. Called from any thread while the mapping stands.
  std::function<std::string(std::uint64_t offset)> tensor_at{};
};

/// A mapped part of a file. Copies share one mapping, which goes with the last owner.
class Mapped {
 public:
  /// Any part of the file, at any offset; it may be empty. `out_of_bounds` where it is not all in the file,
  /// `map_failed`, `unsupported_platform`.
  [[nodiscard]] static Result<Mapped> map(std::shared_ptr<const FileSource> file, std::uint64_t offset,
                                          std::uint64_t bytes, MapOptions options = {});

  /// All of the mapped part.
  [[nodiscard]] Bytes bytes() const noexcept;
  [[nodiscard]] Memory memory() const noexcept;
  /// A part by its offset in the file. `out_of_bounds` where it is not all mapped.
  [[nodiscard]] Result<Bytes> range(std::uint64_t file_offset, std::uint64_t bytes) const;

  /// Applies the advice to a part by its offset in the file. Dropping acts on the whole pages inside, so that
  /// neighbours keep theirs; all else acts on every page that the part touches. `unsupported_strategy` where
  /// the system refuses, `read_failed` where pages to populate cannot be read, `out_of_bounds`.
  [[nodiscard]] Result<void> advise(std::uint64_t offset, std::uint64_t bytes, Advice advice) const;

  /// Unmaps now and reports a failure, after which the mapping still stands and `unmap` can be repeated.
  /// `in_use` while there are other owners.
  [[nodiscard]] Result<void> unmap();

  /// Finds the mapping of a Memory again without keeping it alive.
  struct Mapping;
  using Watch = std::weak_ptr<Mapping>;
  [[nodiscard]] Watch watch() const noexcept { return mapping_; }
  /// The mapping that the watch is of, if it is still there and owns the memory.
  [[nodiscard]] static std::optional<Mapped> find(const Watch& watch, const Memory& memory);
  [[nodiscard]] static std::optional<Mapped> find(const Watch& watch);

  /// The first page that could not be read and was replaced by zeros.
  [[nodiscard]] std::optional<Error> fault() const;
  /// Reads a part of a file by system calls; errors name the tensor as those of a mapping do.
  [[nodiscard]] static Result<void> read(const FileSource& file, std::uint64_t offset, MutableBytes into,
                                         const MapOptions& options);

 private:
  explicit Mapped(std::shared_ptr<Mapping> mapping) noexcept;
  [[nodiscard]] Result<Region> pages_of(std::uint64_t offset, std::uint64_t bytes, bool inward) const;
  /// Reads a part by system calls and discards it.
  [[nodiscard]] Result<void> read_through(std::uint64_t offset, std::uint64_t bytes) const;
  std::shared_ptr<Mapping> mapping_;
};

}  // namespace ht::inline v1::io
