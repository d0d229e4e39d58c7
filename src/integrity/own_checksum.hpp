// The checksum that a `.ht` has of its own payload.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/integrity/verify.hpp>
#include <htensor/io/mapped.hpp>
#include <optional>

#include "io/file.hpp"

namespace ht::inline v1 {

struct OwnChecksum {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t crc = 0;
};

/// Nothing where the file is no `.ht`, or has none. The header has a checksum, too, and is checked here.
[[nodiscard]] Result<std::optional<OwnChecksum>> own_checksum(const io::File& file);

[[nodiscard]] Result<Verification> verify_own(const io::Mapped& file, const OwnChecksum& own,
                                              const VerifyOptions& options);

}  // namespace ht::inline v1
