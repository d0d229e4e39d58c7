// Digests of bytes with the algorithms that seals may use.
//
// The bytes of a digest are in the order that common tools print: SHA-256 as `sha256sum`, XXH3-128 as
// `xxhsum -H2`, and CRC-64/NVME big-endian, as in object stores.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ht::inline v1 {

// The values are those in seals (spec/seal-format.md).
enum class HashAlgorithm : std::uint8_t { crc64nvme = 1, xxh3_128 = 2, sha256 = 3 };

inline constexpr std::array all_hash_algorithms{HashAlgorithm::crc64nvme, HashAlgorithm::xxh3_128,
                                                HashAlgorithm::sha256};

/// "crc64nvme", "xxh3-128", "sha256".
[[nodiscard]] std::string_view to_string(HashAlgorithm algorithm) noexcept;
[[nodiscard]] std::optional<HashAlgorithm> hash_algorithm_named(std::string_view name) noexcept;
/// 8, 16 or 32.
[[nodiscard]] std::size_t digest_bytes(HashAlgorithm algorithm) noexcept;

class Digest {
 public:
  /// Copies the first `digest_bytes(algorithm)` bytes. `bytes` must have at least that many.
  Digest(HashAlgorithm algorithm, Bytes bytes) noexcept;
  explicit Digest(std::uint64_t crc64nvme) noexcept;

  [[nodiscard]] HashAlgorithm algorithm() const noexcept { return algorithm_; }
  [[nodiscard]] Bytes bytes() const& noexcept { return Bytes(bytes_).first(digest_bytes(algorithm_)); }
  [[nodiscard]] Bytes bytes() const&& = delete;
  /// The sum as a number. The algorithm must be CRC-64/NVME.
  [[nodiscard]] std::uint64_t crc64nvme() const noexcept { return load_be<std::uint64_t>(bytes_); }

  friend bool operator==(const Digest&, const Digest&) noexcept = default;

 private:
  HashAlgorithm algorithm_;
  std::array<std::byte, 32> bytes_{};
};

/// Lower-case hexadecimal.
[[nodiscard]] std::string to_hex(const Digest& digest);
/// Base64, as object stores show checksums.
[[nodiscard]] std::string to_base64(const Digest& digest);

/// Computes the digest of bytes that are passed in pieces.
class Hasher {
 public:
  /// Loads OpenSSL on the first use of SHA-256; `unsupported_platform` if OpenSSL is not installed.
  [[nodiscard]] static Result<Hasher> make(HashAlgorithm algorithm);

  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void update(Bytes bytes) noexcept;
  /// Returns the digest of all bytes since construction or the last `finish`, and resets the hasher.
  [[nodiscard]] Digest finish() noexcept;

 private:
  struct State;
  explicit Hasher(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// The digest of `bytes`. Errors are those of `Hasher::make`.
[[nodiscard]] Result<Digest> digest(HashAlgorithm algorithm, Bytes bytes);

}  // namespace ht::inline v1
