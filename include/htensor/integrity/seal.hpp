// Integrity: `seal` stores checksums of all bytes of a model's files, `verify` compares the files with them,
// `hash` returns digests.
//
//   HT_TRY(ht::seal(model));             // writes model.safetensors.htseal
//   HT_TRY(ht::verify(model));           // checksum_mismatch names the first bad tensor
//
//   const auto found = HT_TRY(ht::compare_with_seal("model.safetensors", {.work = work}));
//   for (const auto& range : found.bad) print(range.file, range.tensor, range.offset, range.bytes);
//   HT_TRY(ht::seal(model, {.algorithm = ht::HashAlgorithm::sha256, .force = true}));
//
// `FILE.htseal` is stored beside a single file of any format, or beside part 1 of a split GGUF.
// `model.htseal` is stored beside a shard index, or inside a model that is a folder. A seal covers all bytes,
// including headers and gaps, in chunks of at most 4 MiB, so that verification can name the damaged parts.
// The format is in spec/seal-format.md; the same files give the same seal, byte for byte. Results are values.
// The functions hash on all processors, and many threads may call them at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/model/model.hpp>
#include <htensor/tensor/storage.hpp>
#include <htensor/tensor/tensor.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

/// The contents of a seal file.
struct Seal {
  struct File {
    /// The path relative to the seal's folder, with slashes.
    std::string name;
    std::uint64_t bytes = 0;
    /// The digest of the whole file.
    Digest digest;

    friend bool operator==(const File&, const File&) = default;
  };

  struct Tensor {
    std::string name;
    /// Index in `Seal::files`; nullopt for a splat, which has no bytes in a file.
    std::optional<std::uint32_t> file;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    /// The digest of the tensor's bytes only, so that it is the same in every format.
    Digest digest;

    friend bool operator==(const Tensor&, const Tensor&) = default;
  };

  /// The maximum size of a chunk.
  static constexpr std::uint64_t chunk_bytes = std::uint64_t{4} << 20;
  /// The size in bytes of the largest seal that is read or written; enough for CRC-64/NVME of almost
  /// 128 TiB in large tensors.
  static constexpr std::uint64_t max_bytes = std::uint64_t{256} << 20;

  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  std::vector<File> files;
  std::vector<Tensor> tensors;
  /// The digests of all chunks, concatenated, in order of files and offsets.
  std::vector<std::byte> chunks;

  friend bool operator==(const Seal& a, const Seal& b);
};

/// Parses a seal. `bad_seal` if it is incomplete, of another version, or inconsistent.
[[nodiscard]] Result<Seal> parse_seal(Bytes bytes);
/// The inverse of `parse_seal`. `bad_seal` if `parse_seal` would refuse the bytes, `header_too_large` if they
/// would exceed `Seal::max_bytes`.
[[nodiscard]] Result<std::vector<std::byte>> encode_seal(const Seal& seal);

/// The digest of the model: the digest of its only file, or the digest of the digests of all files.
[[nodiscard]] Result<Digest> digest_of(const Seal& seal);

/// The path of a model's seal, which need not exist: inside the folder if `model` is a folder, else beside
/// the shard index or the file, or beside the first part of a split model. Depends only on names and on
/// whether `model` is a folder. `formats` are the caller's formats.
[[nodiscard]] std::filesystem::path seal_path(const std::filesystem::path& model, io::Port* port = nullptr,
                                              std::span<const Format> formats = {});

/// Reads and parses a seal. `not_sealed` if the file does not exist, and the errors of `parse_seal`.
[[nodiscard]] Result<Seal> read_seal(const std::filesystem::path& path, io::Port* port = nullptr);

/// The size in bytes of the largest splat that is hashed byte by byte, unless options allow more. The
/// CRC-64/NVME of a splat of any size is computed directly; XXH3 and SHA-256 process all expanded bytes, and
/// a file of 4 KB may have a splat of 2^50 bytes. SHA-256 of 1 GiB takes about two seconds on a processor
/// without SHA instructions.
inline constexpr std::uint64_t default_max_splat_bytes = std::uint64_t{1} << 30;

struct SealOptions {
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  WorkOptions work{};
  /// `budget_too_small` for a larger splat, unless the algorithm is CRC-64/NVME.
  std::uint64_t max_splat_bytes = default_max_splat_bytes;
  /// Overwrites an existing seal without a comparison. If false, files that differ from their seal are
  /// `checksum_mismatch`, an unreadable seal is `bad_seal`, and in both cases the old seal stays.
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

struct ModelDigests {
  struct File {
    std::filesystem::path path;
    Digest digest;
  };

  /// The digest of the file; for several files, the digest of their digests.
  Digest digest;
  /// The files in the order of `Model::files`, then the index, if there is one.
  std::vector<File> files;
  /// The digests of the tensors in catalog order. Each covers the tensor's bytes only, so that it is the same
  /// in every format. Empty unless `per_tensor`.
  std::vector<Digest> tensors;
};

/// Writes the seal of all files of the model to `seal_path`. Unless `force` is set, an existing seal is first
/// compared with the files (`checksum_mismatch`), then replaced. `already_exists` if the existing seal covers
/// other files that still exist; `header_too_large` if the seal would be larger than `Seal::max_bytes`;
/// `bad_state` for a model from memory, of several paths, or opened with `catalog_only`.
[[nodiscard]] Result<SealedModel> seal(const Model& model, const SealOptions& options = {});

/// Computes the digests that a seal would contain.
[[nodiscard]] Result<ModelDigests> hash(const Model& model, const HashOptions& options = {});

// Verification: compares files with their seal, or a `.ht` file with its own checksum.

struct Verification {
  /// The state of files compared with their seal. If several apply, the last one in this list is reported.
  enum class Verdict : std::uint8_t {
    intact,         ///< every byte was read and matches
    headers_match,  ///< headers and sizes match; data was not read
    damaged,        ///< bytes differ
    grown,          ///< bytes follow the recorded end of the file
    truncated,      ///< bytes are missing at the end
    replaced,       ///< every chunk of a file differs; not reported by a quick comparison
    missing,        ///< a file of the set does not exist
  };

  /// The part of a file that a byte belongs to.
  enum class Part : std::uint8_t {
    header,  ///< from the start of the file to the first tensor
    tensor,  ///< bytes of a tensor
    gap,     ///< between tensors; without a seal, between the header and the data of a `.ht` file
    tail,    ///< after the last tensor, or after the recorded end of the file
  };

  /// Bytes whose checksum differs from the seal: whole chunks, so some of the bytes may be good.
  struct BadRange {
    std::filesystem::path file;
    Part part = Part::tensor;
    /// The tensor's name; empty unless `part` is `tensor`.
    std::string tensor;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;

    friend bool operator==(const BadRange&, const BadRange&) = default;
  };

  Verdict verdict = Verdict::intact;
  /// The bytes that were read and compared.
  std::uint64_t checked_bytes = 0;
  /// The damaged ranges, in order of files and offsets.
  std::vector<BadRange> bad;
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// The path of the seal; empty if the file's own checksum was used.
  std::filesystem::path seal;
  /// The first file with this verdict; empty if `is_intact`.
  std::filesystem::path file;

  /// Whether all compared bytes match: the verdict is `intact` or `headers_match`.
  [[nodiscard]] bool is_intact() const noexcept {
    return verdict == Verdict::intact || verdict == Verdict::headers_match;
  }
  /// `checksum_mismatch`, `truncated`, `trailing_bytes` or `missing_shard` unless `is_intact`, with the first
  /// affected tensor of `file`; the message names up to ten ranges, first those of `file`.
  [[nodiscard]] Result<void> result() const;
};

[[nodiscard]] std::string_view to_string(Verification::Verdict verdict) noexcept;
[[nodiscard]] std::string_view to_string(Verification::Part part) noexcept;

struct VerifyOptions {
  /// Reads headers, gaps and sizes only: takes milliseconds for files of any size. The best verdict is then
  /// `headers_match`.
  bool quick = false;
  WorkOptions work{};
  /// The maximum number of bytes to read of a header (see OpenOptions).
  std::uint64_t max_header_bytes = 0;
  /// The caller's formats, for a path; a model uses the formats that it was opened with.
  std::vector<Format> formats{};
  /// The operating system if null; tests substitute their own Port.
  io::Port* port = nullptr;
};

/// Compares every byte of a file, or of all files of a model, with its seal, or a `.ht` file with its own
/// checksum, on all processors. Files that no longer parse can be verified too. The Verification lists all
/// bad ranges. If a file has no seal of its own, the seal of its folder is used, provided that it lists the
/// file. An Error means that the files could not be verified: `not_sealed`; `bad_seal` if the seal of the
/// file is damaged or belongs to another file, or if the file has no seal of its own and the seal of its
/// folder is damaged; `changed_underfoot` for a file that is modified meanwhile.
[[nodiscard]] Result<Verification> compare_with_seal(const std::filesystem::path& path,
                                                     const VerifyOptions& options = {});

/// The same for the open files of a model, but damage is an Error that names the first bad tensor:
/// `checksum_mismatch`, `truncated`, `trailing_bytes`, `missing_shard`. `not_sealed` without a seal.
[[nodiscard]] Result<void> verify(const Model& model, const VerifyOptions& options = {});

/// Compares the tensor's bytes with the seal of its file, or with the checksum in a `.ht` file:
/// `checksum_mismatch`, `not_sealed`, `bad_seal`. Uses the bytes in memory if the tensor is loaded or its
/// file can be mapped, else reads them. For a result of `AnyTensor::slice`, compares the whole tensor. For a
/// splat, compares all bytes outside of tensors, in all files of the model, because a header has its pattern.
/// Reads the seal in each call; for all tensors, verify the model.
[[nodiscard]] Result<void> verify(const AnyTensor& tensor, const WorkOptions& work = {});

/// The same for memory that is mapped from a file. `not_sealed` for other memory, and for a range that is not
/// exactly one tensor of the seal.
[[nodiscard]] Result<void> verify(const Storage& storage);
template <class D, class Shape>
[[nodiscard]] Result<void> verify(const Tensor<D, Shape, Host>& tensor) {
  return verify(tensor.storage());
}

}  // namespace ht::inline v1
