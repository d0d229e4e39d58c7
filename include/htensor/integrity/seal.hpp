// Seals: checksums of all bytes of a model's files, stored in a separate file beside them.
//
// `FILE.htseal` is stored beside a file of any format, `model.htseal` in the folder of a model of several
// files. A seal covers all bytes, including headers and gaps, in chunks of at most 4 MiB, so that
// verification can name the damaged parts. The format is in spec/seal-format.md; the same files give the same
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
  /// Relative to the seal's folder, with slashes.
  std::string name;
  std::uint64_t bytes = 0;
  /// The digest of the whole file.
  Digest digest;

  friend bool operator==(const SealedFile&, const SealedFile&) = default;
};

struct SealedTensor {
  std::string name;
  /// Index in `Seal::files`; nullopt for a splat, which has no bytes in a file.
  std::optional<std::uint32_t> file;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  /// The digest of the tensor's bytes only, so that it is the same in every format.
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
  /// The digests of all chunks, concatenated, in order of files and offsets.
  std::vector<std::byte> chunks;

  friend bool operator==(const Seal&, const Seal&) = default;
};

/// Parses a seal. `bad_seal` if it is incomplete, of another version, or inconsistent.
[[nodiscard]] Result<Seal> parse_seal(Bytes bytes);
/// The inverse of `parse_seal`.
[[nodiscard]] Result<std::vector<std::byte>> encode_seal(const Seal& seal);

/// The digest of the model: that of its only file, or the digest of the digests of all files.
[[nodiscard]] Result<Digest> digest_of(const Seal& seal);

/// The path of a model's seal, whether it exists or not: in a folder, beside an index or a file, or beside
/// the first part of a split model. Depends only on names and on whether `model` is a folder. `formats` are
/// the caller's formats.
[[nodiscard]] std::filesystem::path seal_path(const std::filesystem::path& model,
                                              io::Port& port = io::system_port(),
                                              std::span<const Format> formats = {});

/// `not_sealed` if the file does not exist.
[[nodiscard]] Result<Seal> read_seal(const std::filesystem::path& path, io::Port& port = io::system_port());

/// The largest splat that is hashed byte by byte unless options allow more. The CRC-64/NVME of a splat of any
/// size is computed directly; XXH3 and SHA-256 process all expanded bytes, and a file of 4 KB may have a
/// splat of 2^50 bytes. 1 GiB takes SHA-256 about two seconds without SHA instructions.
inline constexpr std::uint64_t default_max_splat_bytes = std::uint64_t{1} << 30;

struct SealOptions {
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  WorkOptions work{};
  /// `budget_too_small` for a larger splat, unless the algorithm is CRC-64/NVME.
  std::uint64_t max_splat_bytes = default_max_splat_bytes;
  /// Overwrites an existing seal without comparing. If false, files that differ from their seal are
  /// `checksum_mismatch`, an unreadable seal is `bad_seal`, and the old seal stays.
  bool force = false;
};

struct SealedModel {
  std::filesystem::path seal;
  /// The size of all files, including headers and gaps.
  std::uint64_t bytes = 0;
  Digest digest;
};

struct HashOptions {
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// Whether to hash each tensor as well.
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
  /// The digest of the file; for several files, the digest of their digests.
  Digest digest;
  /// In the order of `Model::files`, then the index, if there is one.
  std::vector<FileDigest> files;
  /// In catalog order; of the tensor's bytes only, so that the digest is the same in every format. Empty
  /// unless `per_tensor`.
  std::vector<Digest> tensors;
};

/// Writes the seal of all files of the model to `seal_path`, replacing an existing seal: later verifications
/// compare with the present contents. `already_exists` if the existing seal covers other files that still
/// exist; `header_too_large` if the seal would be larger than `Seal::max_bytes`; `bad_state` for a model
/// without files.
[[nodiscard]] Result<SealedModel> seal(const Model& model, const SealOptions& options = {});

/// Computes the digests that a seal would contain.
[[nodiscard]] Result<ModelDigests> hash(const Model& model, const HashOptions& options = {});

}  // namespace ht::inline v1
