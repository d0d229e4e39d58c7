// Writes a planned file, using the fastest method that the system supports for each part.
//
// The methods, in order of preference: share blocks with the source, if the file system can and both ranges
// have the same alignment; direct I/O in large aligned pieces, several in flight; copy_file_range; read and
// write through one small buffer per worker. Holes of 64 KiB or more in unchanged ranges of the source stay
// holes. Memory use is that of the buffers, whatever the file size. Column-major tensors that become
// row-major are read through their mapping.
#pragma once

#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/convert/convert.hpp>

#include "convert/copy/copy_checksums.hpp"
#include "io/atomic_file.hpp"
#include "io/strategy/mapped_file.hpp"

namespace ht::inline v1 {

struct CopyOptions {
  /// The source's files; null for a file that is not read.
  io::MappedFiles sources{};
  /// Receives every byte of the file once. This rules out shared blocks and copy_file_range.
  CopyChecksums* sums = nullptr;
  WorkOptions work{};
};

/// The Error of a stop that was requested after `written` of `bytes` bytes, before any file was replaced.
[[nodiscard]] Error stopped_write(const std::filesystem::path& path, std::uint64_t written,
                                  std::uint64_t bytes);

/// Fills the target, which must be empty. `changed_underfoot` if a source changed since it was opened,
/// `read_failed`, `write_failed`, `no_space`, `cancelled`.
[[nodiscard]] Result<CopiedBy> copy_file(const PlannedFile& file, io::AtomicFile& target,
                                         const CopyOptions& options);

/// Fills memory of the size of the file instead; `options.sums` is not used.
[[nodiscard]] Result<void> copy_to_memory(const PlannedFile& file, MutableBytes into,
                                          const CopyOptions& options);

}  // namespace ht::inline v1
