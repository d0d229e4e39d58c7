// Makes a file out of what a plan says, by the fastest way that the system has for each part.
//
// Blocks are shared with the source where the file system can do that and both lie alike; else bytes go past
// the page cache, in large aligned pieces, several under way at once; else the system copies them by itself;
// else they are read and written through a small ring. Holes of the source stay holes. Memory is that of the
// ring, whatever the file's size; column-major tensors that become row-major are looked at through their
// mapping.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/convert/plan.hpp>
#include <span>

#include "io/atomic_file.hpp"
#include "io/mapped_file.hpp"

namespace ht::inline v1 {

/// Sees every byte of the file, once, in any order, on any thread.
class ByteWatcher {
 public:
  ByteWatcher() = default;
  ByteWatcher(const ByteWatcher&) = delete;
  ByteWatcher& operator=(const ByteWatcher&) = delete;
  virtual ~ByteWatcher() = default;

  virtual Result<void> see(std::uint64_t offset, Bytes bytes) = 0;
  /// The same for zeros that nobody writes, as they are a hole: there may be any number of them.
  virtual Result<void> see_zeros(std::uint64_t offset, std::uint64_t bytes) = 0;
};

struct CopyOptions {
  /// The source's files; null where nothing is taken from one.
  io::MappedFiles sources{};
  /// Who wants to see the bytes keeps the system from sharing or copying them by itself.
  ByteWatcher* watcher = nullptr;
  WorkOptions work{};
};

/// Fills the target, which has nothing in it yet. `changed_underfoot` where a source is not as it was when it
/// was opened, `read_failed`, `write_failed`, `no_space`, `cancelled`.
[[nodiscard]] Result<CopiedBy> copy_file(const PlannedFile& file, io::AtomicFile& target,
                                         const CopyOptions& options);

}  // namespace ht::inline v1
