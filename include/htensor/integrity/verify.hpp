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

/// What became of files since they were sealed. Where several are true, the last of these is told.
enum class Verdict : std::uint8_t {
  intact,
  damaged,    ///< bytes differ
  grown,      ///< there are bytes behind what was sealed
  truncated,  ///< bytes are gone from the end
  replaced,   ///< nothing of a file is as it was sealed
  missing,    ///< a file of several is not there
};

[[nodiscard]] std::string_view to_string(Verdict verdict) noexcept;

/// What a byte of a file is a part of.
enum class FilePart : std::uint8_t { header, tensor, gap, tail };

[[nodiscard]] std::string_view to_string(FilePart part) noexcept;

/// Bytes that are not as they were sealed: whole chunks, so that some of them may be good.
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
  /// Those that were read and compared.
  std::uint64_t checked_bytes = 0;
  /// In the order of the files and of their bytes.
  std::vector<BadRange> bad;
  HashAlgorithm algorithm = HashAlgorithm::crc64nvme;
  /// Empty where the file's own checksum told.
  std::filesystem::path seal;

  [[nodiscard]] bool ok() const noexcept { return verdict == Verdict::intact; }
  /// `checksum_mismatch`, `truncated`, `missing_shard` … with the first tensor that is concerned, unless all
  /// is well.
  [[nodiscard]] Result<void> result() const;
};

struct VerifyOptions {
  /// Headers, gaps and sizes only: in an instant, for files of any size.
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
