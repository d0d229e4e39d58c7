// Sealing a model: its digests, and the file that keeps them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/integrity/verify.hpp>
#include <vector>

namespace ht::inline v1 {

/// The largest splat that is hashed byte by byte unless options allow more. CRC-64/NVME of a splat takes no
/// time whatever its size; XXH3 and SHA-256 walk all the bytes that it stands for, and a file of 4 KB may
/// name 2^50 of them. 1 GiB takes SHA-256 about two seconds without SHA instructions.
inline constexpr std::uint64_t default_max_splat_bytes = std::uint64_t{1} << 30;

struct SealOptions {
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  WorkOptions work{};
  /// `budget_too_small` for a larger splat, unless the algorithm is CRC-64/NVME.
  std::uint64_t max_splat_bytes = default_max_splat_bytes;
  /// Seals the bytes as they are. Otherwise files that differ from the seal they have are
  /// `checksum_mismatch`, a seal that cannot be read is `bad_seal`, and either seal stays.
  bool force = false;
};

struct SealedModel {
  std::filesystem::path seal;
  /// Of all files, headers and gaps included.
  std::uint64_t bytes = 0;
  Digest digest;
};

struct HashOptions {
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// Also of each tensor.
  bool per_tensor = false;
  WorkOptions work{};
  /// As in SealOptions; splats are hashed only for `per_tensor`.
  std::uint64_t max_splat_bytes = default_max_splat_bytes;
};

struct FileDigest {
  std::filesystem::path path;
  Digest digest;
};

struct ModelDigests {
  /// Of one file it is that of the file; of several it is over their digests.
  Digest digest;
  /// As `Model::files` has them, then the index, where one named them.
  std::vector<FileDigest> files;
  /// In the order of the catalog; of a tensor's bytes alone, so that it has the same in every format. Empty
  /// where they were not asked for.
  std::vector<Digest> tensors;
};

/// Every byte of a file, or of all files of a model, by all processors. A file that no longer parses can be
/// verified as well as any. What is found is in the answer; an Error is what kept it from being found:
/// `not_sealed`, `bad_seal` for a seal that is damaged or of another file, `changed_underfoot` for a file
/// that is written to meanwhile.
[[nodiscard]] Result<Verification> verify(const std::filesystem::path& path,
                                          const VerifyOptions& options = {});

}  // namespace ht::inline v1
