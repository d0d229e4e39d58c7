// One source of the `mapped` strategy: one shared read-only mapping, made by the first request that needs it.
// If the address space has no room for that, each request gets its own mapping (a window). mapped_machine.hpp
// has the states. Thread-safe.
//
// Pages are read from the disk at first touch, which can be slow or fail (docs/io.md). Writes by other
// programs may become visible.
#pragma once

#include <atomic>
#include <functional>
#include <htensor/base/fault.hpp>
#include <htensor/io/strategy.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/file_source.hpp"
#include "io/strategy/mapped_machine.hpp"

namespace ht::inline v1::io {

struct MapOptions {
  /// How faults on unreadable pages are handled.
  FaultPolicy faults = FaultPolicy::guarded;
  /// Returns the name of the tensor at an offset of the file, for errors; may return an empty string. Called
  /// from any thread while the mapping exists.
  std::function<std::string(std::uint64_t offset)> tensor_at{};
  /// Private, writable pages, which are copied when they are written: the file never changes. The bytes of a
  /// source that is not a file are copied for each request.
  bool is_private = false;
};

class MappedFile {
 public:
  explicit MappedFile(std::shared_ptr<const Source> source, MapOptions options = {});

  [[nodiscard]] const Source& source() const noexcept { return *source_; }
  [[nodiscard]] const std::shared_ptr<const Source>& shared_source() const noexcept { return source_; }
  /// The source if it is a FileSource, else null.
  [[nodiscard]] const FileSource* file_source() const noexcept { return file_.get(); }
  /// Whether `map` can work: the source is a file or memory.
  [[nodiscard]] bool is_mappable() const noexcept { return is_mappable_; }
  /// Whether a request found that the source cannot be mapped as a whole: the address space has no room, or
  /// the source is not a file and the mapping is private.
  [[nodiscard]] bool is_windowed() const noexcept { return is_windowed_.load(std::memory_order_acquire); }
  /// Whether the whole source is mapped at this moment.
  [[nodiscard]] bool is_mapped() const noexcept { return is_whole_.load(std::memory_order_acquire); }
  /// Whether the source must be read by `read` instead of touching mapped pages: it cannot be mapped, or the
  /// fault policy is `off`.
  [[nodiscard]] bool must_read() const noexcept {
    return !is_mappable_ || options_.faults == FaultPolicy::off;
  }
  /// Maps the source if necessary, and returns whether all of it can be used in place.
  [[nodiscard]] bool map_for_use_in_place() { return !must_read() && map(0, 0) && is_mapped(); }
  /// The error of the first page that could not be read and was replaced by zeros.
  [[nodiscard]] std::optional<Error> fault() const;
  /// Reads with system calls. Errors name the tensor.
  [[nodiscard]] Result<void> read(std::uint64_t offset, MutableBytes into) const;

  // Requests. A range may begin and end anywhere in the source; a range outside it is `out_of_bounds`.

  /// Maps the range. `map_failed`, `unsupported_platform`; `unsupported_strategy` for a source that is
  /// neither a file nor memory.
  [[nodiscard]] Result<Strategy::MapDone> map(std::uint64_t offset, std::uint64_t bytes);
  /// Maps the range in private, writable memory. All private requests share one mapping of the file, which is
  /// not the mapping of `map`. MapDone::has_other_owner is false for a window or a copy.
  [[nodiscard]] Result<Strategy::MapDone> map_private(std::uint64_t offset, std::uint64_t bytes);
  /// Applies the advice. `drop` and `evict` act only on whole pages inside the range, so that adjacent ranges
  /// keep their pages; other advice acts on every page that the range touches. `unsupported_strategy` if the
  /// system refuses, `read_failed` if pages to populate cannot be read.
  [[nodiscard]] Result<void> advise(std::uint64_t offset, std::uint64_t bytes, Strategy::Advice advice);
  /// Unmaps a window and resets `memory`. Returns false for memory that is not a window of this file.
  /// `unmap_failed` leaves the memory unchanged, so that the request can be retried; `in_use` while it has
  /// other owners.
  [[nodiscard]] Result<bool> release(Memory& memory);

  /// Maps the range, runs `body` on its bytes under the fault guard, and releases the range. If `must_read`,
  /// reads the range into a buffer instead.
  [[nodiscard]] Result<void> visit(std::uint64_t offset, std::uint64_t bytes,
                                   const std::function<Result<void>(Bytes)>& body);

 private:
  struct Mapping;
  struct ReleasedFault;
  struct Range {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    Strategy::Advice advice = Strategy::Advice::normal;
  };

  [[nodiscard]] Result<void> check_range(std::uint64_t offset, std::uint64_t bytes) const;
  [[nodiscard]] Strategy::MapDone view(const Range& range) const;
  [[nodiscard]] Result<Strategy::MapDone> perform(const Range& range, const mapped::Event& request);
  [[nodiscard]] mapped::Event map_whole();
  [[nodiscard]] Result<std::shared_ptr<Mapping>> map_part(const Range& range) const;
  [[nodiscard]] Result<Strategy::MapDone> map_window(const Range& range);
  [[nodiscard]] Result<Strategy::MapDone> copy_range(const Range& range) const;
  [[nodiscard]] Result<void> advise_windows(const Range& range) const;
  [[nodiscard]] Result<void> advise_pages(const Mapping& mapping, const Range& range) const;
  [[nodiscard]] Result<void> drop_pages(const Mapping* mapping, const Range& range) const;
  [[nodiscard]] Result<void> read_through(const Range& range) const;

  std::shared_ptr<const Source> source_;
  std::shared_ptr<const FileSource> file_;  // null if the source is not a file
  bool is_mappable_;
  MapOptions options_;
  mutable std::mutex mutex_;
  mapped::State state_;
  std::shared_ptr<Mapping> mapping_;  // of the whole file; null for memory
  Memory memory_;                     // the whole source
  std::atomic<bool> is_whole_ = false;
  std::atomic<bool> is_windowed_ = false;
  std::vector<std::weak_ptr<Mapping>> windows_;
  // The first fault in windows that were unmapped. Shared with the windows, which may outlive this object.
  std::shared_ptr<ReleasedFault> released_fault_;
  std::unique_ptr<MappedFile> private_;  // made by the first `map_private`
};

/// Files by number; null if a file is missing.
using MappedFiles = std::span<MappedFile* const>;

}  // namespace ht::inline v1::io
