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

#include "convert/passing_sums.hpp"
#include "io/atomic_file.hpp"
#include "io/mapped_file.hpp"

namespace ht::inline v1 {

struct CopyOptions {
  /// The source's files; null where nothing is taken from one.
  io::MappedFiles sources{};
  /// Sees every byte of the file, once, which keeps the system from sharing or copying them by itself.
  PassingSums* sums = nullptr;
  WorkOptions work{};
};

/// Fills the target, which has nothing in it yet. `changed_underfoot` where a source is not as it was when it
/// was opened, `read_failed`, `write_failed`, `no_space`, `cancelled`.
[[nodiscard]] Result<CopiedBy> copy_file(const PlannedFile& file, io::AtomicFile& target,
                                         const CopyOptions& options);

}  // namespace ht::inline v1
