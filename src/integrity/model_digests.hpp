// The digests of a model: of its files, of its tensors, of the chunks that a seal has.
#pragma once

#include <functional>
#include <htensor/base/work.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/integrity/seal.hpp>
#include <span>
#include <string>
#include <vector>

#include "io/mapped_file.hpp"
#include "io/staged.hpp"

namespace ht::inline v1 {

/// The digests of ranges of the files, as `measure` gives them.
using Measure = std::function<Result<std::vector<Digest>>(std::span<const io::FileRange> ranges)>;

struct ModelToMeasure {
  const Catalog& catalog;
  /// Those of the catalog's entries, and then any others; all have to be there.
  io::MappedFiles files;
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// Returns digests of bytes that were seen before; if empty, the files are read.
  Measure measured{};
  std::uint64_t max_splat_bytes = UINT64_MAX;
};

struct FileAndTensorDigests {
  std::vector<Digest> files;
  /// Empty where they were not asked for.
  std::vector<Digest> tensors;
};

/// Without what only a seal needs.
[[nodiscard]] Result<FileAndTensorDigests> measure_model(const ModelToMeasure& model, bool tensors,
                                                         const WorkOptions& work);

/// `names` are what the seal calls the files.
[[nodiscard]] Result<Seal> make_seal(const ModelToMeasure& model, std::vector<std::string> names,
                                     const WorkOptions& work);

/// The digest of `bytes` bytes of a repeated pattern. CRC-64/NVME takes O(log bytes) steps; the others walk
/// all bytes and end with `cancelled` soon after a stop is requested.
[[nodiscard]] Result<Digest> digest_of_splat(HashAlgorithm algorithm, Bytes pattern, std::uint64_t bytes,
                                             const std::stop_token& stop = {});

}  // namespace ht::inline v1
