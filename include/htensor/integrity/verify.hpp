// Verifying: files held against their seal, or a `.ht` against the checksum of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/io/port.hpp>
#include <htensor/tensor/storage.hpp>
#include <htensor/tensor/tensor.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ht::inline v1 {

/// The state of files compared with their seal. If several apply, the last of these is reported.
enum class Verdict : std::uint8_t {
  intact,         ///< every byte was read and matches
  headers_match,  ///< headers and sizes match; data was not read
  damaged,        ///< bytes differ
  grown,          ///< there are bytes after the sealed end
  truncated,      ///< bytes are missing at the end
  replaced,       ///< every chunk of a file differs
  missing,        ///< a file of the set does not exist
};

[[nodiscard]] std::string_view to_string(Verdict verdict) noexcept;

/// The part of a file that a byte belongs to.
enum class FilePart : std::uint8_t { header, tensor, gap, tail };

[[nodiscard]] std::string_view to_string(FilePart part) noexcept;

/// Bytes whose checksum differs from the seal: whole chunks, so some of the bytes may be good.
struct BadRange {
  std::filesystem::path file;
  FilePart part = FilePart::tensor;
  /// Its name; empty unless the part is one.
  std::string tensor;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const BadRange&, const BadRange&) = default;
};

struct Verification {
  Verdict verdict = Verdict::intact;
  /// The bytes that were read and compared.
  std::uint64_t checked_bytes = 0;
  /// In the order of the files and of their bytes.
  std::vector<BadRange> bad;
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// Empty if the file's own checksum was used.
  std::filesystem::path seal;

  /// Whether nothing that was compared differs: the verdict is `intact` or `headers_match`.
  [[nodiscard]] bool ok() const noexcept {
    return verdict == Verdict::intact || verdict == Verdict::headers_match;
  }
  /// `checksum_mismatch`, `truncated`, `trailing_bytes` or `missing_shard` unless `ok`, with the first tensor
  /// concerned; the message names up to ten ranges.
  [[nodiscard]] Result<void> result() const;
};

struct VerifyOptions {
  /// Headers, gaps and sizes only: takes milliseconds for files of any size. The best verdict is then
  /// `headers_match`.
  bool quick = false;
  WorkOptions work{};
  /// The most bytes that are read of a header (see OpenOptions).
  std::uint64_t max_header_bytes = 0;
  /// The system, unless a test puts another in its place.
  io::Port* port = nullptr;
};

/// Whether the bytes that are in memory at this moment are those that the tensor's file was sealed with:
/// `checksum_mismatch` where not. `not_sealed` where nobody can tell, as with memory that is of no file; of
/// what was loaded by `read`, `Model::validate` can. It reads the seal each time: for all tensors, verify.
[[nodiscard]] Result<void> validate(const Storage& storage);
template <class D, class Shape>
[[nodiscard]] Result<void> validate(const Tensor<D, Shape, Host>& tensor) {
  return validate(tensor.storage());
}

}  // namespace ht::inline v1
