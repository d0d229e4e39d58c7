// Digests of bytes by the algorithms that a seal may use.
//
// A digest is as the algorithm's own tools print it: that of SHA-256 as `sha256sum` does, of XXH3-128 as
// `xxhsum -H2`, of CRC-64/NVME the sum's bytes, highest first, as object stores have it.
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

// As seals name them (spec/seal-format.md).
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
  /// Of `digest_bytes(algorithm)` bytes; there must be that many.
  Digest(HashAlgorithm algorithm, Bytes bytes) noexcept;
  explicit Digest(std::uint64_t crc64nvme) noexcept;

  [[nodiscard]] HashAlgorithm algorithm() const noexcept { return algorithm_; }
  [[nodiscard]] Bytes bytes() const& noexcept { return Bytes(bytes_).first(digest_bytes(algorithm_)); }
  [[nodiscard]] Bytes bytes() const&& = delete;
  /// Of a CRC-64/NVME alone.
  [[nodiscard]] std::uint64_t crc64nvme() const noexcept { return load_be<std::uint64_t>(bytes_); }

  friend bool operator==(const Digest&, const Digest&) noexcept = default;

 private:
  HashAlgorithm algorithm_;
  std::array<std::byte, 32> bytes_{};
};

/// Lower-case hexadecimal.
[[nodiscard]] std::string to_hex(const Digest& digest);
/// As object stores show checksums.
[[nodiscard]] std::string to_base64(const Digest& digest);

/// A digest of bytes that come piece by piece.
class Hasher {
 public:
  /// `unsupported_platform` for SHA-256 where OpenSSL is not installed; it is loaded when it is first asked
  /// for.
  [[nodiscard]] static Result<Hasher> make(HashAlgorithm algorithm);

  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  void update(Bytes bytes) noexcept;
  /// Of all since it was made or last asked, and begins anew.
  [[nodiscard]] Digest finish() noexcept;

 private:
  struct State;
  explicit Hasher(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// Of bytes that are all there.
[[nodiscard]] Result<Digest> digest(HashAlgorithm algorithm, Bytes bytes);

}  // namespace ht::inline v1
