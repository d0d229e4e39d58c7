// Seals: what every byte of a model's files has to add up to, kept beside them in a file of its own.
//
// `FILE.htseal` lies beside a file of any format, `model.htseal` in the folder of a model of several files.
// All bytes are covered, those of headers and gaps included, in chunks of 4 MiB at most, so that a
// verification can name what is damaged. The format is in spec/seal-format.md; the same files give the same
// seal, byte for byte.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/io/port.hpp>
#include <htensor/model/model.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ht::inline v1 {

struct SealedFile {
  /// From the seal's folder, with slashes.
  std::string name;
  std::uint64_t bytes = 0;
  /// Of the whole file.
  Digest digest;

  friend bool operator==(const SealedFile&, const SealedFile&) = default;
};

struct SealedTensor {
  std::string name;
  /// Nothing for a splat, which has no bytes in a file.
  std::optional<std::uint32_t> file;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// Of its bytes alone, so that the same tensor has the same in every format.
  Digest digest;

  friend bool operator==(const SealedTensor&, const SealedTensor&) = default;
};

struct Seal {
  static constexpr std::uint64_t chunk_bytes = std::uint64_t{4} << 20;
  /// The largest seal that is read or written: CRC-64/NVME of 128 TiB in large tensors.
  static constexpr std::uint64_t max_bytes = std::uint64_t{256} << 20;

  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  std::vector<SealedFile> files;
  std::vector<SealedTensor> tensors;
  /// The digests of all chunks, end to end, in the order of the files and of their bytes.
  std::vector<std::byte> chunks;

  friend bool operator==(const Seal&, const Seal&) = default;
};

/// `bad_seal` where it is not whole, not of this version, or says what cannot be.
[[nodiscard]] Result<Seal> parse_seal(Bytes bytes);
/// Its inverse.
[[nodiscard]] Result<std::vector<std::byte>> encode_seal(const Seal& seal);

/// The digest of one file is the model's; that of several is over the digests of all.
[[nodiscard]] Result<Digest> digest_of(const Seal& seal);

/// Where the seal of what a user names is looked for, whether there is one or not: of a folder in it, of an
/// index beside it, of any part of a split model beside the first. Only names are looked at, and what is a
/// folder. `formats` are the caller's own.
[[nodiscard]] std::filesystem::path seal_path(const std::filesystem::path& model,
                                              io::Port& port = io::system_port(),
                                              std::span<const Format> formats = {});

/// `not_sealed` where there is none.
[[nodiscard]] Result<Seal> read_seal(const std::filesystem::path& path, io::Port& port = io::system_port());

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
  /// That of the file; of several files, the digest of their digests.
  Digest digest;
  /// As `Model::files` has them, then the index, if there is one.
  std::vector<FileDigest> files;
  /// In the order of the catalog; of a tensor's bytes alone, so that it has the same in every format. Empty
  /// where they were not asked for.
  std::vector<Digest> tensors;
};

/// Writes the seal of all files of the model to `seal_path`, in place of an existing one: the files are
/// verified against their present contents from then on. `already_exists` where the seal of other files that
/// still exist is there; `header_too_large` if the seal would be larger than `Seal::max_bytes`; `bad_state`
/// for a model without files.
[[nodiscard]] Result<SealedModel> seal(const Model& model, const SealOptions& options = {});

/// The digests that a seal would have.
[[nodiscard]] Result<ModelDigests> hash(const Model& model, const HashOptions& options = {});

}  // namespace ht::inline v1
