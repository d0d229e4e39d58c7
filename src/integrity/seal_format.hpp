// Limits of the seal format: valid file names, and the size of a seal, known before any digest is computed.
#pragma once

#include <cstdint>
#include <htensor/base/result.hpp>
#include <htensor/format/catalog.hpp>
#include <htensor/integrity/seal.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ht::inline v1 {

/// Returns why a file name is not valid in a seal; empty if the name is valid.
[[nodiscard]] std::string_view sealed_name_problem(std::string_view name);

struct SealCounts {
  std::uint64_t files = 0;
  std::uint64_t tensors = 0;
  std::uint64_t chunks = 0;
  std::uint64_t name_bytes = 0;

  [[nodiscard]] static SealCounts of(const Seal& seal) noexcept;
  /// Size of the whole seal; nullopt if it exceeds 64 bits.
  [[nodiscard]] std::optional<std::uint64_t> seal_bytes(HashAlgorithm algorithm) const noexcept;
};

/// `header_too_large` if the seal would be larger than `Seal::max_bytes`, which no reader accepts.
[[nodiscard]] Result<void> check_seal_size(HashAlgorithm algorithm, const SealCounts& counts);

/// The same for a model with this catalog. `file_bytes` and `names` are the sizes and names of its files:
/// those of the catalog, then its index.
[[nodiscard]] Result<void> check_seal_size(HashAlgorithm algorithm, const Catalog& catalog,
                                           std::span<const std::uint64_t> file_bytes,
                                           std::span<const std::string> names);

}  // namespace ht::inline v1
