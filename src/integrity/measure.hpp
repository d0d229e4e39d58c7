// Digests of parts of files, by all processors at once.
#pragma once

#include <functional>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <span>
#include <vector>

#include "io/mapped_file.hpp"
#include "io/staged.hpp"

namespace ht::inline v1 {

struct Measured {
  /// Null where a file is missing; nothing of that may be asked for.
  io::MappedFiles files;
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// Where somebody else fetches the pages meanwhile: waits, on any thread, until those of a range are there.
  /// What it fails with ends all.
  std::function<Result<void>(std::size_t range)> wait_for{};
};

/// The digest of each of the ranges, which have to lie in their files. What is in the page cache is read
/// there; what is not, past it where that is faster and the ranges are in order. `changed_underfoot` where a
/// file is not as it was when it was opened, `cancelled`, `read_failed`.
[[nodiscard]] Result<std::vector<Digest>> measure(const Measured& what, std::span<const io::FileRange> ranges,
                                                  const WorkOptions& work = {});

/// The digest of bytes in memory, on this thread. `cancelled` soon after a stop is requested.
[[nodiscard]] Result<Digest> digest_in_memory(HashAlgorithm algorithm, Bytes bytes,
                                              const std::stop_token& stop);

/// The digest of `bytes` bytes of a repeated pattern. CRC-64/NVME takes O(log bytes) steps; the others walk
/// all bytes and end with `cancelled` soon after a stop is requested.
[[nodiscard]] Result<Digest> digest_of_splat(HashAlgorithm algorithm, Bytes pattern, std::uint64_t bytes,
                                             const std::stop_token& stop = {});

}  // namespace ht::inline v1
