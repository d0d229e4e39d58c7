// Computes digests of parts of files on all processors.
#pragma once

#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <span>
#include <vector>

#include "io/strategy/mapped_file.hpp"
#include "io/strategy/staged.hpp"

namespace ht::inline v1 {

struct HashJob {
  /// An entry is null if its file is missing; no range may be in that file.
  io::MappedFiles files;
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// Waits until the pages of a range are in memory; set if another thread fetches the pages meanwhile.
  /// Called from any thread; an error ends all work.
  std::function<Result<void>(std::size_t range)> wait_for{};
};

/// Returns the digest of each range, which has to be within its file. Cached bytes are read from the page
/// cache, other bytes with direct I/O if that is faster and the ranges are in order. `changed_underfoot` if a
/// file changed since it was opened, `cancelled`, `read_failed`.
[[nodiscard]] Result<std::vector<Digest>> hash_ranges(const HashJob& job,
                                                      std::span<const io::FileRange> ranges,
                                                      const WorkOptions& work = {});

/// Returns the digest of bytes in memory, computed on this thread. `cancelled` soon after a stop request.
[[nodiscard]] Result<Digest> digest_in_memory(HashAlgorithm algorithm, Bytes bytes, const WorkOptions& work);

/// Returns the digest of `bytes` bytes of a repeated pattern. CRC-64/NVME takes O(log bytes) steps; other
/// algorithms hash all bytes and return `cancelled` soon after a stop request.
[[nodiscard]] Result<Digest> digest_of_splat(HashAlgorithm algorithm, Bytes pattern, std::uint64_t bytes,
                                             const std::stop_token& stop = {});

}  // namespace ht::inline v1
