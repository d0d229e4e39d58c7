// Checksums: CRC-64/NVME, and digests of bytes with the algorithms that seals may use.
//
//   const auto sum = ht::crc64nvme(bytes);
//   auto hasher = HT_TRY(ht::Hasher::make(ht::HashAlgorithm::sha256));
//   hasher.update(first);
//   hasher.update(second);
//   print(ht::to_hex(hasher.finish()));
//
// The bytes of a digest are in the order that common tools print: SHA-256 as in `sha256sum`, XXH3-128 as in
// `xxhsum -H2`, CRC-64/NVME big-endian as in object stores. A Digest is a value. A Hasher is for one thread
// at a time; functions may be called by many threads.
#pragma once

#include <array>
#include <cstdint>
#include <htensor/base/bytes.hpp>
#include <htensor/base/result.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

// CRC-64/NVME, the checksum of the library's file formats.
//
// Reflected polynomial 0x9a6c9329ac4bc9b5, initial value and final exclusive-or all ones; the checksum of
// "123456789" is 0xae8b14860a799888. It detects every single-bit error and every burst error of up to 64
// bits. The first call selects the fastest kernel for this processor; all kernels return the same checksums.

namespace ht::inline v1 {

/// The checksum of `bytes`. `before` is the checksum of the preceding bytes: `crc64nvme(b, crc64nvme(a))` is
/// the checksum of a followed by b.
[[nodiscard]] std::uint64_t crc64nvme(Bytes bytes, std::uint64_t before = 0) noexcept;

/// The checksum of two consecutive pieces, from the checksum of each and the size of the second, so that
/// pieces can be processed in parallel. Takes microseconds for any sizes.
[[nodiscard]] std::uint64_t crc64nvme_combine(std::uint64_t first, std::uint64_t second,
                                              std::uint64_t second_bytes) noexcept;

/// The selected kernel: "table", "pclmulqdq", "vpclmulqdq" or "pmull".
[[nodiscard]] std::string_view crc64nvme_kernel() noexcept;

/// The algorithms of digests. The values are the numbers in seals (spec/seal-format.md).
enum class HashAlgorithm : std::uint8_t { crc64nvme = 1, xxh3_128 = 2, sha256 = 3 };

inline constexpr std::array all_hash_algorithms{HashAlgorithm::crc64nvme, HashAlgorithm::xxh3_128,
                                                HashAlgorithm::sha256};

/// The name: "crc64nvme", "xxh3-128", "sha256".
[[nodiscard]] std::string_view to_string(HashAlgorithm algorithm) noexcept;
/// The algorithm with this name; nullopt if there is none.
[[nodiscard]] std::optional<HashAlgorithm> hash_algorithm_named(std::string_view name) noexcept;
/// The size of a digest in bytes: 8, 16 or 32.
[[nodiscard]] std::size_t digest_bytes(HashAlgorithm algorithm) noexcept;

/// The result of a hash algorithm: up to 32 bytes, stored in the object. Allocates no memory.
class Digest {
 public:
  /// A copy of the first `digest_bytes(algorithm)` bytes. `bytes` must have at least that many.
  Digest(HashAlgorithm algorithm, Bytes bytes) noexcept;
  /// A CRC-64/NVME digest with this value.
  explicit Digest(std::uint64_t crc64nvme) noexcept;

  [[nodiscard]] HashAlgorithm algorithm() const noexcept { return algorithm_; }
  /// The bytes, in the order that common tools print. Valid as long as the Digest.
  [[nodiscard]] Bytes bytes() const& noexcept { return {bytes_.data(), digest_bytes(algorithm_)}; }
  [[nodiscard]] Bytes bytes() const&& = delete;
  /// The checksum as a number. The algorithm must be CRC-64/NVME.
  [[nodiscard]] std::uint64_t crc64nvme() const noexcept;

  /// Digests of different algorithms are unequal.
  friend bool operator==(const Digest& a, const Digest& b) noexcept;

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
  /// Returns a hasher that has received no bytes yet. Loads OpenSSL on the first use of SHA-256;
  /// `unsupported_platform` if OpenSSL is not installed.
  [[nodiscard]] static Result<Hasher> make(HashAlgorithm algorithm);

  // A moved-from Hasher can only be assigned to or destroyed.
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  /// Adds the next piece. The bytes are read during the call only.
  void update(Bytes bytes) noexcept;
  /// Returns the digest of all bytes since construction or the last `finish`, and resets the hasher.
  [[nodiscard]] Digest finish() noexcept;

 private:
  struct State;
  explicit Hasher(std::shared_ptr<State> state) noexcept;
  std::shared_ptr<State> state_;
};

/// The digest of `bytes`. Errors are those of `Hasher::make`.
[[nodiscard]] Result<Digest> digest(HashAlgorithm algorithm, Bytes bytes);

}  // namespace ht::inline v1
