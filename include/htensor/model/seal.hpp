// Sealing a model: its digests, and the file that keeps them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <vector>

namespace ht::inline v1 {

struct SealOptions {
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  WorkOptions work{};
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
};

struct ModelDigests {
  /// Of one file it is that of the file; of several it is over their digests.
  Digest digest;
  /// As `Model::files` has them.
  std::vector<Digest> files;
  /// In the order of the catalog; of a tensor's bytes alone, so that it has the same in every format. Empty
  /// where they were not asked for.
  std::vector<Digest> tensors;
};

}  // namespace ht::inline v1
