// Verification: compares files with their seal, or a `.ht` file with its own checksum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <htensor/base/result.hpp>
#include <htensor/base/work.hpp>
#include <htensor/hash/digest.hpp>
#include <htensor/io/port.hpp>
#include <htensor/model/model.hpp>
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
  /// The tensor's name; empty unless `part` is `tensor`.
  std::string tensor;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(const BadRange&, const BadRange&) = default;
};

struct Verification {
  Verdict verdict = Verdict::intact;
  /// The bytes that were read and compared.
  std::uint64_t checked_bytes = 0;
  /// In order of files and offsets.
  std::vector<BadRange> bad;
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// Empty if the file's own checksum was used.
  std::filesystem::path seal;

  /// Whether all compared bytes match: the verdict is `intact` or `headers_match`.
  [[nodiscard]] bool ok() const noexcept {
    return verdict == Verdict::intact || verdict == Verdict::headers_match;
  }
  /// `checksum_mismatch`, `truncated`, `trailing_bytes` or `missing_shard` unless `ok`, with the first
  /// affected tensor; the message names up to ten ranges.
  [[nodiscard]] Result<void> result() const;
};

struct VerifyOptions {
  /// Headers, gaps and sizes only: takes milliseconds for files of any size. The best verdict is then
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

/// Compares every byte of a file, or of all files of a model, with its seal, or a `.ht` with its own
/// checksum, on all processors. Also verifies files that no longer parse. The Verification lists all bad
/// ranges. An Error means that the files could not be verified: `not_sealed`, `bad_seal` for a seal that is
/// damaged or of another file, `changed_underfoot` for a file that is modified meanwhile.
[[nodiscard]] Result<Verification> verify(const std::filesystem::path& path,
                                          const VerifyOptions& options = {});

/// The same for the open files of a model. The Error names the first bad tensor (`checksum_mismatch`,
/// `truncated`, …), or says that there is no seal (`not_sealed`).
[[nodiscard]] Result<void> verify(const Model& model, const VerifyOptions& options = {});

/// Compares the tensor's bytes in memory, mapped or loaded, with its seal: `checksum_mismatch`, `not_sealed`.
/// Reads the seal each time; for all tensors, use verify.
[[nodiscard]] Result<void> validate(const AnyTensor& tensor);

/// The same for memory that is mapped from a file; `not_sealed` for other memory.
[[nodiscard]] Result<void> validate(const Storage& storage);
template <class D, class Shape>
[[nodiscard]] Result<void> validate(const Tensor<D, Shape, Host>& tensor) {
  return validate(tensor.storage());
}

}  // namespace ht::inline v1
