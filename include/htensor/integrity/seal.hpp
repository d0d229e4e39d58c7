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
#include <htensor/hash/digest.hpp>
#include <htensor/io/port.hpp>
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
[[nodiscard]] Result<Digest> digest_of_files(HashAlgorithm algorithm, std::span<const Digest> files);

/// Where the seal of what a user names is looked for, whether there is one or not: of a folder in it, of an
/// index beside it, of any part of a split model beside the first. Only names are looked at, and what is a
/// folder.
[[nodiscard]] std::filesystem::path seal_path(const std::filesystem::path& model,
                                              io::Port& port = io::system_port());

/// `not_sealed` where there is none.
[[nodiscard]] Result<Seal> read_seal(const std::filesystem::path& path, io::Port& port = io::system_port());

}  // namespace ht::inline v1
