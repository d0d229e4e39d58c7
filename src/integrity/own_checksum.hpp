// Verifying a file, such as a `.ht`, by the checksum of its data in its own header.
#pragma once

#include <htensor/base/result.hpp>
#include <htensor/format/format.hpp>
#include <htensor/integrity/verify.hpp>
#include <optional>

#include "io/mapped_file.hpp"

namespace ht::inline v1 {

/// nullopt where the file's format, one of the caller's `more` or of the library's, stores no checksum in the
/// header, or this file has none. Errors are those of `Format::own_checksum`.
[[nodiscard]] Result<std::optional<OwnChecksum>> own_checksum(const io::Source& file,
                                                              std::span<const Format> more);

[[nodiscard]] Result<Verification> verify_own(io::MappedFile& file, const OwnChecksum& own,
                                              const VerifyOptions& options);

}  // namespace ht::inline v1
